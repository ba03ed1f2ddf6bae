// The server's answers (tool/web/server.go), as the page's code reads them.

export interface State {
  title: string;
  process: boolean; // a process and not only files
  pid?: number;
  live: boolean;
  ended?: string;
  silent?: string; // why the process does not answer at present
  allow_set: boolean;
  kinds: { name: string; what: string }[] | null;
  report?: number; // in a report: its time
  stored?: { dir: string; problem?: string; map?: boolean; doctor?: boolean }; // a folder, whose data can be requested by time; map, doctor: it has them
}

/** Which process the page shows. */
export interface ProcessInfo {
  host: string;
  command?: string; // unknown in a report
  version: string; // of the library
  started: number; // ms since 1970
}

/** The figures of one moment: present bytes, and counts since the start of the process. Times are ms since 1970. */
export interface Point {
  t: number;
  rss: number;
  live: number;
  cached: number;
  frag: number;
  meta: number;
  other: number;
  dirty: number;
  unsure?: number; // maximum error of each of live, cached, frag and other; absent: exact, or an older library
  handed: number; // by allocated size
  allocated?: number; // absent for an older library
  faults: number;
  purged: number;
  refaults: number;
  calls: number;
  kernel_ns: number;
  refills: number;
  remote: number;
  lockwaits: number;
  threads: number;
  run?: number; // in a folder with several processes: the run
}

export interface Moment {
  id: number;
  t: number; // 0: a file without a time
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
  p?: boolean; // only an intermediary between the program and the allocator, such as a function of a standard library
  i?: boolean; // a native function of an interpreter, which is left out between functions of its language
}

/** A profile: each distinct stack once, the outermost frame first, with a value for each type. */
export interface Stacks {
  types: SampleType[];
  default: number;
  period: number;
  t: number;
  frames: Frame[];
  stacks: number[][];
  owned?: [number, number][]; // the frames left out at the outer and the inner end of each stack if memory is charged to the program
  values: number[][];
  base?: number[][];
  comments: string[] | null;
  errors: (number | null)[]; // standard errors of the totals, by type; null: unknown
  base_errors?: (number | null)[];
  change_errors?: (number | null)[]; // if both profiles are of one process: that of the blocks that differ
  labels?: Labels; // other filters for rows
}

export interface Labels {
  least: number; // block size; most 0: the rows have no sizes
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
  inner: number; // number of innermost functions that belong to a standard library; the next one holds the memory
  bytes_per_s: number;
  standard_error: number; // of bytes_per_s
  sure: number;
  class: "leak-like" | "cache-like";
  steady: boolean; // false: too few profiles to distinguish steady growth from a jump
  now: number;
  values: number[];
  times: number[]; // of the values, ms since 1970
}

/** The filter values for suspects. */
export interface Choices {
  modules: string[];
  threads: string[] | null; // known names; null if no profile has threads
}

export interface SizeClass {
  size: number;
  spans: number;
  live: number;
  cached: number;
  free: number;
  refills: number;
}

/** Requests since the start that got blocks of one size, estimated from samples. */
export interface Request {
  size: number;
  count: number;
  bytes: number;
  requested: number;
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
  pressure?: { limit: number; usage: number }; // of its memory cgroup: the nearest limit, 0: none; its bytes, without page cache
  purge: { mode: string; delay_ms: number; purged_bytes: number; postponed: number };
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
  sites?: { place: string; stack: string[]; bytes: number; share: number; notes?: string[] }[];
}

export interface Diagnosis {
  seconds: number;
  findings: Finding[] | null;
  looked_at: { id: string; what: string; seen: string; missing?: string }[];
}

export interface LifetimeRow {
  stack: string[]; // innermost first
  inner?: number; // as for a suspect
  alive: number;
  freed: number;
  freed_bytes: number;
  elsewhere: number;
  least_ns: number;
  mean_ns: number;
  most_ns: number;
  ages: number[]; // freed blocks by age class
  short_objects: number;
  by?: string; // the function that freed most of them, if known
  by_objects?: number;
}

export interface Lifetimes {
  t?: number; // when they were taken, ms since 1970
  classes: string[];
  short: number; // number of classes of temporary blocks
  freed: number[];
  bytes: number[];
  alive: number;
  rows: LifetimeRow[];
  more: number;
  says: string[] | null;
  modules?: string[]; // of all stacks, selected or not
  threads?: string[]; // of all rows, selected or not; absent for an older library
  deaths?: { known: number; all: number }; // number of blocks whose freeing stack is known; absent for an older library and while threads are selected
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

/** The totals since the trace began, and the events that the page does not have yet. */
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

/** The last CPU profile that a page of this server has started. */
export interface CPU {
  running: boolean;
  elapsed_s: number;
  for_s: number; // of the running profile, or the default
  hz: number;
  most_s: number;
  most_hz: number;
  rounds: number; // number of profiles that have ended
  said: string[]; // comments of the last profile
  problem?: string; // why the last profile is incomplete
}

/** The sampled blocks that pin memory. None is known without a stack. */
export interface MapPin {
  stack?: string;
  samples?: number;
  age_ms?: number;
  thread?: number;
}

/** A part of a region: one span, or a run of free pages in the same state. */
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

/** The sums of all regions, with a value for each column. */
export interface MapSums {
  t: number;
  page_bytes: number;
  os_page_bytes: number;
  memory?: Record<string, number>; // the resident memory; undefined for older libraries
  columns: string[];
  addresses: string[];
  regions: number[][];
  every: number;
  blocks: MapBlock[] | null;
  kept: { kept: string; bytes: number; purged: number; idle_ms?: number }[] | null;
  stacks: Record<string, string[]>;
  inner?: Record<string, number>; // number of innermost functions of a stack that belong to a standard library; absent in older folders
}

export interface MapParts {
  regions: MapRegion[];
  stacks: Record<string, string[]>;
  inner: Record<string, number>;
}
