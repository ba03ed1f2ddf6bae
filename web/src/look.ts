// What a view shows of a profile: chosen, added up and laid out. The worker makes it (worker.ts), so that no update holds up the page;
// in a report, which has none, the page itself (looks.ts). Pure but for the last graph that was laid out.
import type { Labels, SampleType, Stacks } from "./api.ts";
import { type Picture, layout, shapeOf } from "./draw/graph.ts";
import { type Changed, type Changes, type What, changes } from "./model/changes.ts";
import { type Freed, freed } from "./model/deaths.ts";
import { type Graph, graph } from "./model/graph.ts";
import { type Part, byLine, withLines } from "./model/source.ts";
import { type Held, type Line, type Ordered, type Row, type Shape, around, heldFor, holders, isWhole, lines, matching, ordered, pattern, table, total } from "./model/stacks.ts";
import { type Column, column, sorted } from "./model/table.ts";
import type { Shown } from "./state.ts";

const MOST_ROWS = 500;
const MOST_NAMES = 2000; // offered where one is typed
const MOST_HOLDERS = 3;

// What each view's figures depend on, besides the filters; all else of what is shown only decides how they are drawn.
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

/** Which profile, and what of it; two that ask for the same are the same text as JSON. */
export interface Question {
  kind: string;
  at: number;
  base?: number;
  rows: string; // filters that the server does
  follows: boolean; // the process goes on
  round?: number; // of profiles that begin and end: how often they have
  view: string;
  shown: Partial<Shown>;
}

export function questionOf(shown: Shown, view: string, profile: Pick<Question, "kind" | "at" | "base" | "rows" | "follows" | "round">): Question {
  const needed: Record<string, unknown> = {};
  for (const name of [...FILTERS, ...(NEEDS[view as ViewName] ?? [])]) needed[name] = shown[name];
  return { ...profile, view, shown: needed as Partial<Shown> };
}

/** What is told of a profile beside every view. */
export interface About {
  types: SampleType[];
  type: number; // the one that is shown
  unit: string;
  t: number;
  compares: boolean;
  stacks: number; // of all, whatever is shown
  comments: string[];
  error: number | null; // of the sum; 0 where nobody knows it here
  baseError: number | null;
  labels?: Labels;
  modules: string[];
  sum: { value: number; base: number; weight: number };
  freed?: Freed; // of the kind deaths
}

export interface FlameFigures {
  tree: Ordered;
  found: ReturnType<typeof matching>; // by the search
}

/** The figures of each view, by its name. */
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

let last: { shape: string; picture: Picture } | null = null; // while the shape stays, so does the picture

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
  const shown = given as Shown; // each view's needs are in it
  const type = Math.max(0, shown.type ? stacks.types.findIndex((one) => one.name === shown.type) : stacks.default);
  const all = lines(stacks, type, shown);
  const sum = total(all);
  // That of the whole: of a part nobody knows it here.
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

/** The memory that goes to the other thread instead of being copied. */
export function buffersOf({ figures }: Look): ArrayBuffer[] {
  const { tree, callers, callees } = figures as Partial<Figures["flame"] & Figures["callers"]>;
  const trees = [tree, callers?.tree, callees?.tree].filter((one) => !!one);
  return trees.flatMap((one) => [one.begins, one.frames, one.nameOf, one.names.ends, one.moduleOf, one.modules.ends, one.fileOf, one.files.ends, one.order, one.values, one.weights, one.bases]
    .map((array) => array.buffer as ArrayBuffer));
}
