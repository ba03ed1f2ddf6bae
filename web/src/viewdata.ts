// Computes the data of a view of a profile: filtered, summed and laid out. It runs in the worker (worker.ts), so that
// an update does not block the page. In a report, which has no worker, the page itself runs it (useviewdata.ts). Pure, except
// that it caches the last graph layout.
import type { Labels, SampleType, Stacks } from "./answers.ts";
import { type GraphLayout, layout, layoutKey } from "./draw/graph.ts";
import { type Changes, type ChangeType, compareStacks, type StackChange } from "./model/changes.ts";
import { type FreeingCoverage, freeingCoverage } from "./model/deaths.ts";
import { callGraph, type Graph } from "./model/graph.ts";
import { type FileLines, functionsWithLines, valuesByLine } from "./model/source.ts";
import {
  acceptsAll,
  blocksType,
  callersOfHolder,
  compilePattern,
  type FunctionMemory,
  type FunctionRow,
  functionTable,
  memoryHolders,
  type SelectedStack,
  type SortedStacks,
  searchMatches,
  selectStacks,
  sortStacks,
  splitAt,
  sumStacks,
  type TreeOptions,
} from "./model/stacks.ts";
import { type Column, parseSort, sortRows } from "./model/table.ts";
import type { ViewState } from "./state.ts";

const MAX_ROWS = 500;
const MAX_NAMES = 2000; // suggested in input fields
const MAX_HOLDERS = 3;

// The settings that affect the data of each view, in addition to the filters. All other settings only affect the
// drawing.
const VIEW_SETTINGS = {
  overview: [],
  flame: ["inverted", "folded", "search"],
  tree: ["inverted", "folded"],
  functions: ["sort", "search"],
  graph: ["nodes", "edges", "most"],
  callers: ["function", "folded", "search"],
  source: ["function"],
  changes: ["what", "search"],
} as const satisfies Record<string, (keyof ViewState)[]>;

const FILTER_SETTINGS = ["type", "focus", "ignore", "hide", "module", "raw"] as const;

type ViewName = keyof typeof VIEW_SETTINGS;

/** Whether the search affects a view. */
export function hasSearch(view: string): boolean {
  return (VIEW_SETTINGS[view as ViewName] as readonly string[]).includes("search");
}

/** The requested profile and view. Two requests are equal if their JSON is equal. */
export interface ViewRequest {
  kind: string;
  at: number;
  base?: number;
  rows: string; // filters that the server applies
  isLive: boolean; // the process is running
  runNumber?: number; // for profiles with a start and an end: their number
  view: string;
  shown: Partial<ViewState>;
}

export function viewRequest(
  shown: ViewState,
  view: string,
  profile: Pick<ViewRequest, "kind" | "at" | "base" | "rows" | "isLive" | "runNumber">,
): ViewRequest {
  const settings: Record<string, unknown> = {};
  for (const name of [...FILTER_SETTINGS, ...(VIEW_SETTINGS[view as ViewName] ?? [])]) settings[name] = shown[name];
  return { ...profile, view, shown: settings as Partial<ViewState> };
}

/** The data shown beside every view of a profile. */
export interface ProfileInfo {
  types: SampleType[];
  type: number; // the selected one
  unit: string;
  t: number;
  isComparison: boolean;
  stacks: number; // of all stacks, selected or not
  comments: string[];
  error: number | null; // of the sum; 0 if unknown here
  baseError: number | null;
  changeError?: number | null;
  labels?: Labels;
  modules: string[];
  total: { value: number; base: number; weight: number };
  freed?: FreeingCoverage; // for the kind deaths
}

export interface FlameData {
  tree: SortedStacks;
  matches: ReturnType<typeof searchMatches>; // by the search
}

/** The data of each view, by its name. */
export interface ViewData {
  overview: { topHolders: (FunctionMemory & { callers: FunctionMemory[] })[] };
  flame: FlameData;
  tree: { tree: SortedStacks; hasBlocks: boolean };
  functions: { rows: FunctionRow[]; omitted: number; column: Column; reversed: boolean };
  graph: { graph: Graph; picture: GraphLayout };
  callers: { name: string; names: string[]; value: number; callers: FlameData | null; callees: FlameData | null };
  source: { name: string; names: string[]; parts: FileLines[] };
  changes: { totals: Omit<Changes, "rows">; rows: StackChange[]; omitted: number; type: "" | ChangeType };
}

export interface ViewResult {
  view: string;
  about: ProfileInfo;
  data: ViewData[ViewName];
}

type Builder<V extends ViewName> = (
  stacks: Stacks,
  all: SelectedStack[],
  shown: ViewState,
  total: { weight: number },
) => ViewData[V];

let lastLayout: { shape: string; picture: GraphLayout } | null = null; // the picture is reused while the shape stays the same

function cachedLayout(one: Graph): GraphLayout {
  const shape = layoutKey(one);
  if (lastLayout?.shape !== shape) lastLayout = { shape, picture: layout(one) };
  return lastLayout.picture;
}

function flameData(stacks: Stacks, all: SelectedStack[], shape: TreeOptions, search: string): FlameData {
  return { tree: sortStacks(stacks, all, shape), matches: searchMatches(stacks, all, compilePattern(search)) };
}

const BUILDERS: { [V in ViewName]: Builder<V> } = {
  overview: (stacks, all) => ({
    topHolders: memoryHolders(stacks, all)
      .slice(0, MAX_HOLDERS)
      .map((row) => ({ ...row, callers: callersOfHolder(stacks, all, row.name).slice(0, 3) })),
  }),
  flame: (stacks, all, shown) => flameData(stacks, all, shown, shown.search),
  tree: (stacks, all, shown) => ({
    tree: sortStacks(stacks, all, shown),
    hasBlocks: all[0]?.blocks !== undefined,
  }),
  functions: (stacks, all, shown) => {
    const { by, reversed } = parseSort(shown.sort, stacks.base !== undefined);
    const search = compilePattern(shown.search);
    const rows = sortRows(functionTable(stacks, all), by, reversed).filter((row) => !search || search.test(row.name));
    return { rows: rows.slice(0, MAX_ROWS), omitted: Math.max(0, rows.length - MAX_ROWS), column: by, reversed };
  },
  graph: (stacks, all, shown) => {
    const one = callGraph(stacks, all, { nodes: shown.nodes / 100, edges: shown.edges / 100, maxNodes: shown.most });
    return { graph: one, picture: cachedLayout(one) };
  },
  callers: (stacks, all, shown) => {
    const names = functionTable(stacks, all)
      .sort((a, b) => b.cum - a.cum)
      .slice(0, MAX_NAMES)
      .map((row) => row.name);
    const { callers, callees } = splitAt(stacks, all, shown.function);
    const found = callers.length > 0;
    return {
      name: shown.function,
      names,
      value: sumStacks(callers).value,
      callers: found ? flameData(stacks, callers, { folded: shown.folded, inverted: true }, shown.search) : null,
      callees: found ? flameData(stacks, callees, { folded: shown.folded }, shown.search) : null,
    };
  },
  source: (stacks, all, shown) => {
    const names = functionsWithLines(stacks, all);
    const name = shown.function || names[0] || "";
    return { name, names: names.slice(0, MAX_NAMES), parts: valuesByLine(stacks, all, name) };
  },
  changes: (stacks, all, shown) => {
    const { rows, ...totals } = compareStacks(stacks, all);
    const search = compilePattern(shown.search);
    const matchingRows = stacks.base
      ? rows.filter(
          (row) => (!shown.what || row.type === shown.what) && (!search || row.stack.some((name) => search.test(name))),
        )
      : [];
    return {
      totals,
      rows: matchingRows.slice(0, MAX_ROWS),
      omitted: Math.max(0, matchingRows.length - MAX_ROWS),
      type: shown.what as "" | ChangeType,
    };
  },
};

export function computeView(stacks: Stacks, { kind, view, shown: settings }: ViewRequest): ViewResult {
  const shown = settings as ViewState; // it contains the settings of all views
  const type = Math.max(0, shown.type ? stacks.types.findIndex((one) => one.name === shown.type) : stacks.default);
  const selected = selectStacks(stacks, type, shown, view === "tree" ? blocksType(stacks.types, type) : -1);
  const total = sumStacks(selected);
  // The error of the total. The error of a part is unknown here.
  const errorOf = (errors: (number | null)[] | undefined) => (errors && acceptsAll(shown) ? errors[type]! : 0);
  const about: ProfileInfo = {
    types: stacks.types,
    type,
    unit: stacks.types[type]?.unit ?? "bytes",
    t: stacks.t,
    isComparison: stacks.base !== undefined,
    stacks: stacks.stacks.length,
    comments: stacks.comments ?? [],
    error: errorOf(stacks.errors),
    baseError: errorOf(stacks.base_errors),
    ...(stacks.change_errors ? { changeError: errorOf(stacks.change_errors) } : {}),
    labels: stacks.labels,
    total,
    modules: [...new Set(stacks.frames.map((frame) => frame.m ?? ""))].filter(Boolean).sort(),
    ...(kind === "deaths" ? { freed: freeingCoverage(stacks, selected) } : {}),
  };
  const build = BUILDERS[view as ViewName] as Builder<ViewName>;
  return { view, about, data: build(stacks, selected, shown, total) };
}

/** The buffers that are transferred to the other thread instead of being copied. */
export function transferables({ data }: ViewResult): ArrayBuffer[] {
  const { tree, callers, callees } = data as Partial<ViewData["flame"] & ViewData["callers"]>;
  const trees = [tree, callers?.tree, callees?.tree].filter((one) => !!one);
  return trees.flatMap((tree) =>
    [
      tree.begins,
      tree.frames,
      tree.nameOf,
      tree.names.ends,
      tree.moduleOf,
      tree.modules.ends,
      tree.fileOf,
      tree.originOf,
      tree.files.ends,
      tree.order,
      tree.values,
      tree.weights,
      tree.bases,
      tree.blocks,
    ].map((array) => array.buffer as ArrayBuffer),
  );
}
