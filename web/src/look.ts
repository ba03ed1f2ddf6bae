// Computes the data of a view of a profile: filtered, summed and laid out. It runs in the worker (worker.ts), so that
// an update does not block the page. In a report, which has no worker, the page itself runs it (looks.ts). Pure, except
// that it caches the last graph layout.
import type { Labels, SampleType, Stacks } from "./answers.ts";
import { type Picture, layout, shapeOf } from "./draw/graph.ts";
import { type Changed, type Changes, type What, changes } from "./model/changes.ts";
import { type Freed, freed } from "./model/deaths.ts";
import { type Graph, graph } from "./model/graph.ts";
import { type Part, byLine, withLines } from "./model/source.ts";
import { type Held, type Line, type Ordered, type Row, type Shape, around, heldFor, holders, isWhole, lines, matching, ordered, pattern, table, total } from "./model/stacks.ts";
import { type Column, column, sorted } from "./model/table.ts";
import type { Shown } from "./state.ts";

const MOST_ROWS = 500;
const MOST_NAMES = 2000; // suggested in input fields
const MOST_HOLDERS = 3;

// The settings that affect the data of each view, in addition to the filters. All other settings only affect the
// drawing.
const NEEDS = {
  overview: [],
  flame: ["inverted", "folded", "search"],
  tree: ["inverted", "folded"],
  functions: ["sort", "search"],
  graph: ["nodes", "edges", "most"],
  callers: ["function", "folded", "search"],
  source: ["function"],
  changes: ["what", "search"],
} as const satisfies Record<string, (keyof Shown)[]>;

const FILTERS = ["type", "focus", "ignore", "hide", "module"] as const;

type ViewName = keyof typeof NEEDS;

/** The requested profile and view. Two questions are equal if their JSON is equal. */
export interface Question {
  kind: string;
  at: number;
  base?: number;
  rows: string; // filters that the server applies
  follows: boolean; // the process is running
  round?: number; // for profiles with a start and an end: their number
  view: string;
  shown: Partial<Shown>;
}

export function questionOf(shown: Shown, view: string, profile: Pick<Question, "kind" | "at" | "base" | "rows" | "follows" | "round">): Question {
  const needed: Record<string, unknown> = {};
  for (const name of [...FILTERS, ...(NEEDS[view as ViewName] ?? [])]) needed[name] = shown[name];
  return { ...profile, view, shown: needed as Partial<Shown> };
}

/** The data shown beside every view of a profile. */
export interface About {
  types: SampleType[];
  type: number; // the selected one
  unit: string;
  t: number;
  compares: boolean;
  stacks: number; // of all stacks, selected or not
  comments: string[];
  error: number | null; // of the sum; 0 if unknown here
  baseError: number | null;
  labels?: Labels;
  modules: string[];
  sum: { value: number; base: number; weight: number };
  freed?: Freed; // for the kind deaths
}

export interface FlameFigures {
  tree: Ordered;
  found: ReturnType<typeof matching>; // by the search
}

/** The data of each view, by its name. */
export interface Figures {
  overview: { most: (Held & { callers: Held[] })[] };
  flame: FlameFigures;
  tree: { tree: Ordered };
  functions: { rows: Row[]; more: number; by: Column; turned: boolean };
  graph: { graph: Graph; picture: Picture };
  callers: { name: string; names: string[]; value: number; callers: FlameFigures | null; callees: FlameFigures | null };
  source: { name: string; names: string[]; parts: Part[] };
  changes: { totals: Omit<Changes, "rows">; rows: Changed[]; more: number; what: "" | What };
}

export interface Look {
  view: string;
  about: About;
  figures: Figures[ViewName];
}

type Make<V extends ViewName> = (stacks: Stacks, all: Line[], shown: Shown, sum: { weight: number }) => Figures[V];

let last: { shape: string; picture: Picture } | null = null; // the picture is reused while the shape stays the same

function picture(one: Graph): Picture {
  const shape = shapeOf(one);
  if (last?.shape !== shape) last = { shape, picture: layout(one) };
  return last.picture;
}

function flame(stacks: Stacks, all: Line[], shape: Shape, search: string): FlameFigures {
  return { tree: ordered(stacks, all, shape), found: matching(stacks, all, pattern(search)) };
}

const MADE: { [V in ViewName]: Make<V> } = {
  overview: (stacks, all) => ({ most: holders(stacks, all).slice(0, MOST_HOLDERS).map((row) => ({ ...row, callers: heldFor(stacks, all, row.name).slice(0, 3) })) }),
  flame: (stacks, all, shown) => flame(stacks, all, shown, shown.search),
  tree: (stacks, all, shown) => ({ tree: ordered(stacks, all, shown) }),
  functions: (stacks, all, shown) => {
    const { by, turned } = column(shown.sort, stacks.base !== undefined);
    const search = pattern(shown.search);
    const rows = sorted(table(stacks, all), by, turned).filter((row) => !search || search.test(row.name));
    return { rows: rows.slice(0, MOST_ROWS), more: Math.max(0, rows.length - MOST_ROWS), by, turned };
  },
  graph: (stacks, all, shown) => {
    const one = graph(stacks, all, { nodes: shown.nodes / 100, edges: shown.edges / 100, most: shown.most });
    return { graph: one, picture: picture(one) };
  },
  callers: (stacks, all, shown) => {
    const names = table(stacks, all).sort((a, b) => b.cum - a.cum).slice(0, MOST_NAMES).map((row) => row.name);
    const { callers, callees } = around(stacks, all, shown.function);
    const found = callers.length > 0;
    return {
      name: shown.function, names, value: total(callers).value,
      callers: found ? flame(stacks, callers, { folded: shown.folded, inverted: true }, shown.search) : null,
      callees: found ? flame(stacks, callees, { folded: shown.folded }, shown.search) : null,
    };
  },
  source: (stacks, all, shown) => {
    const names = withLines(stacks, all);
    const name = shown.function || names[0] || "";
    return { name, names: names.slice(0, MOST_NAMES), parts: byLine(stacks, all, name) };
  },
  changes: (stacks, all, shown) => {
    const { rows, ...totals } = changes(stacks, all);
    const search = pattern(shown.search);
    const chosen = stacks.base ? rows.filter((row) => (!shown.what || row.what === shown.what) && (!search || row.stack.some((name) => search.test(name)))) : [];
    return { totals, rows: chosen.slice(0, MOST_ROWS), more: Math.max(0, chosen.length - MOST_ROWS), what: shown.what as "" | What };
  },
};

export function lookAt(stacks: Stacks, { kind, view, shown: given }: Question): Look {
  const shown = given as Shown; // it contains the settings of all views
  const type = Math.max(0, shown.type ? stacks.types.findIndex((one) => one.name === shown.type) : stacks.default);
  const all = lines(stacks, type, shown);
  const sum = total(all);
  // The error of the total. The error of a part is unknown here.
  const errorOf = (errors: (number | null)[] | undefined) => (errors && isWhole(shown) ? errors[type]! : 0);
  const about: About = {
    types: stacks.types, type, unit: stacks.types[type]?.unit ?? "bytes", t: stacks.t, compares: stacks.base !== undefined, stacks: stacks.stacks.length, comments: stacks.comments ?? [],
    error: errorOf(stacks.errors), baseError: errorOf(stacks.base_errors), labels: stacks.labels, sum,
    modules: [...new Set(stacks.frames.map((frame) => frame.m ?? ""))].filter(Boolean).sort(),
    ...(kind === "deaths" ? { freed: freed(stacks, all) } : {}),
  };
  const make = MADE[view as ViewName] as Make<ViewName>;
  return { view, about, figures: make(stacks, all, shown, sum) };
}

/** The buffers that are transferred to the other thread instead of being copied. */
export function buffersOf({ figures }: Look): ArrayBuffer[] {
  const { tree, callers, callees } = figures as Partial<Figures["flame"] & Figures["callers"]>;
  const trees = [tree, callers?.tree, callees?.tree].filter((one) => !!one);
  return trees.flatMap((one) => [one.begins, one.frames, one.nameOf, one.names.ends, one.moduleOf, one.modules.ends, one.fileOf, one.files.ends, one.order, one.values, one.weights, one.bases]
    .map((array) => array.buffer as ArrayBuffer));
}
