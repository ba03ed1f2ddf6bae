// What the server answers (tool/web/server.go), and how it is asked. Paths are relative: the page lies below its token.
// In a report (tool/web/report.go) nobody is asked: the answers are in the page.
import { type Report, Inlined } from "./model/inlined.ts";

export interface State {
  title: string;
  process: boolean; // not of files alone
  pid?: number;
  live: boolean;
  ended?: string;
  silent?: string; // why the process does not answer just now
  allow_set: boolean;
  kinds: { name: string; what: string }[] | null;
  report?: number; // this is a report, of this time
  stored?: { dir: string; problem?: string }; // what is kept in a folder can be asked for by time
}

/** One look at the process: bytes now, and counts since its start. Times are ms since 1970. */
export interface Point {
  t: number;
  rss: number;
  live: number;
  cached: number;
  frag: number;
  meta: number;
  other: number;
  dirty: number;
  handed: number;
  faults: number;
  purged: number;
  refaults: number;
  calls: number;
  kernel_ns: number;
  refills: number;
  remote: number;
  lockwaits: number;
  threads: number;
  run?: number; // of a folder with several processes: which one
}

export interface Moment {
  id: number;
  t: number; // 0: a file that does not say
  name?: string; // of a file
  inuse: number;
  asked: boolean;
}

export interface SampleType {
  name: string;
  unit: string;
  what: string;
}

export interface Frame {
  n: string;
  f?: string;
  l?: number;
  m?: string;
  p?: boolean; // of a standard library: it only stands between the program and the allocator
}

/** A profile: each distinct stack once, the outermost frame first, with a value for each type. */
export interface Stacks {
  types: SampleType[];
  default: number;
  period: number;
  t: number;
  frames: Frame[];
  stacks: number[][];
  values: number[][];
  base?: number[][];
  comments: string[] | null;
  errors: (number | null)[]; // standard errors of the totals, by type; null: not known
  base_errors?: (number | null)[];
  labels?: Labels; // what else rows can be chosen by
}

export interface Labels {
  least: number; // size of blocks; most 0: the rows have none
  most: number;
  texts: Record<string, string[]>;
}

export interface Source {
  path: string; // where it was found
  modified: number; // ms since 1970
  lines: string[];
}

export interface Suspect {
  stack: string[]; // innermost first
  inner: number; // so many of them are of a standard library; the next one holds the memory
  bytes_per_s: number;
  sure: number;
  now: number;
  values: number[];
  times: number[]; // of the values, ms since 1970
}

export interface SizeClass {
  size: number;
  spans: number;
  live: number;
  cached: number;
  free: number;
  refills: number;
}

export interface CallCount {
  call: string;
  reason: string;
  calls: number;
  bytes: number;
  refused: number;
  ns: number;
}

export interface Stats {
  memory: Record<string, number>;
  sampling: Record<string, number>;
  system: { calls: CallCount[] | null; refault_bytes: number; minor_faults: number; major_faults: number };
  purge: { mode: string; delay_ms: number; given_back: number; postponed: number };
  size_classes: SizeClass[] | null;
}

export interface Setting {
  name: string;
  value: string;
  default: string;
  any: boolean;
  expected: string;
  help: string;
}

export interface Finding {
  id: string;
  severity: string;
  title: string;
  figure: string;
  why: string;
  change: string[];
  places?: string;
  sites?: { place: string; stack: string[]; bytes: number; share: number }[];
}

export interface Diagnosis {
  seconds: number;
  findings: Finding[] | null;
  looked_at: { id: string; what: string; seen: string; missing?: string }[];
}

export interface LifetimeRow {
  stack: string[]; // innermost first
  alive: number;
  freed: number;
  freed_bytes: number;
  elsewhere: number;
  least_ns: number;
  mean_ns: number;
  most_ns: number;
  ages: number[]; // freed blocks by class of age
  short_objects: number;
  short_bytes: number;
  moved_objects: number;
  by?: string; // the function that freed most of them, where it is known
  by_objects?: number;
}

export interface Lifetimes {
  classes: string[];
  short: number; // so many classes are those of temporary blocks
  freed: number[];
  bytes: number[];
  alive: number;
  rows: LifetimeRow[];
  more: number;
  says: string[] | null;
  deaths?: { known: number; all: number }; // blocks, of how many it is known who freed them; none of an older library
}

export interface Bucket {
  low: number;
  high: number;
  count: number;
}

export interface TracedCalls extends CallCount {
  bytes_histogram: Bucket[];
  ns_histogram: Bucket[];
}

export interface TraceEvent {
  id: number;
  time_s: number;
  call: string;
  reason: string;
  bytes: number;
  ns: number;
  thread: number;
  thread_name: string;
  size_class?: number;
  refused?: boolean;
  stack: string[]; // places, innermost first
}

/** Since the trace began; and the events that the page has not had. */
export interface Traced {
  elapsed_s: number;
  lost: number;
  dropped: number;
  calls: TracedCalls[];
  running: boolean;
  ended?: string;
  next: number;
  events: TraceEvent[];
}

/** Who has a sampled block somewhere, or would: nothing is known without a stack. */
export interface MapPin {
  stack?: string;
  samples?: number;
  age_ms?: number;
  thread?: number;
}

export interface MapPart extends MapPin {
  page: number;
  pages: number;
  is: string;
  size?: number;
  blocks?: number;
  cut?: number;
  live?: number;
  returned?: number;
  holes?: number;
  state?: string;
  idle_ms?: number;
}

export interface MapRegion {
  region: string;
  huge?: number;
  parts?: MapPart[];
}

export interface MapBlock extends MapPin {
  block: string;
  bytes: number;
  room: number;
}

/** All regions in sums, a value for each column. */
export interface MapSums {
  t: number;
  page_bytes: number;
  os_page_bytes: number;
  columns: string[];
  addresses: string[];
  regions: number[][];
  every: number;
  blocks: MapBlock[] | null;
  kept: { kept: string; bytes: number; purged: number; idle_ms?: number }[] | null;
  stacks: Record<string, string[]>;
}

export interface MapParts {
  regions: MapRegion[];
  stacks: Record<string, string[]>;
}

async function answer<T>(response: Response): Promise<T> {
  if (!response.ok) throw new Error((await response.text()).trim() || response.statusText);
  return response.json() as Promise<T>;
}

const element = document.getElementById("report");
const inlined = element && new Inlined(JSON.parse(element.textContent!) as Report);

/** Nobody can be asked for more than what is in it. */
export const isReport = !!inlined;

async function ask<T>(what: string): Promise<T> {
  if (inlined) return inlined.answer(what) as T;
  let response: Response;
  try {
    response = await fetch("api/" + what);
  } catch {
    throw new Error("seemalloc web does not answer any more");
  }
  return answer<T>(response);
}

async function send<T>(what: string, body: unknown = {}): Promise<T> {
  return answer<T>(await fetch("api/" + what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));
}

/** A time of what is kept in a folder; 0 is no bound. */
function window(from: number, until: number): string {
  return `from=${from}&until=${until}`;
}

export const api = {
  state: () => ask<State>("state"),
  between: (from: number, until: number) => ask<Point[]>(`series?${window(from, until)}`),
  series: (since: number) => ask<Point[]>(`series?since=${since}`),
  moments: (from = 0, until = 0) => ask<Moment[]>(from || until ? `moments?${window(from, until)}` : "moments"),
  takeMoment: () => send<Moment>("moments"),
  stacks: (kind: string, at: number, base?: number, rows = "") =>
    ask<Stacks>(`profile?kind=${kind}&at=${at}${base === undefined ? "" : `&base=${base}`}${rows}`),
  source: (file: string) => ask<Source>(`source?file=${encodeURIComponent(file)}`),
  suspects: (last: number, from = 0, until = 0) => ask<Suspect[]>(from || until ? `suspects?${window(from, until)}` : `suspects?last=${last}`),
  stats: () => ask<Stats>("stats"),
  settings: () => ask<Setting[]>("settings"),
  set: (name: string, value: string) => send<string>("settings", { name, value }),
  purge: () => send<string>("purge"),
  doctor: () => ask<Diagnosis>("doctor"),
  trace: (since: number) => ask<Traced>(`trace?since=${since}`),
  map: () => ask<MapSums>("map"),
  mapParts: (from: string, to: string) => ask<MapParts>(`map/parts?from=${from}&to=${to}`),
  lifetimes: () => ask<Lifetimes>("lifetimes"),
};
