// The requests to the server (tool/web/server.go). Paths are relative, because the page is below
// its token. In a report (tool/web/report.go) there is no server: the answers are in the page.
import type { CPU, Choices, Diagnosis, Lifetimes, MapParts, MapSums, Moment, Point, Request, Setting, Source, Stacks, State, Stats, Suspect, Traced } from "./answers.ts";
import { type Report, Inlined } from "./model/inlined.ts";

async function textOf(response: Response): Promise<string> {
  const text = await response.text();
  if (!response.ok) throw new Error(text.trim() || response.statusText);
  return text;
}

// The worker has no document.
const element = typeof document === "undefined" ? null : document.getElementById("report");
const inlined = element && new Inlined(JSON.parse(element.textContent!) as Report);

/** A report has no server for further requests. */
export const isReport = !!inlined;

/**
 * Whether rows of this kind of profile can be selected by thread, as far as that is known without requesting the
 * profile.
 */
export function tellsThreads(kind: string): boolean {
  return !inlined || inlined.tellsThreads(kind);
}

// The last answer for each path. The same text gives the same object, so that nothing is redrawn.
const known = new Map<string, { what: string; text: string; value: unknown }>();

async function ask<T>(what: string): Promise<T> {
  if (inlined) return inlined.answer(what) as T;
  let response: Response;
  try {
    response = await fetch("api/" + what);
  } catch {
    throw new Error("seemalloc web no longer answers");
  }
  const text = await textOf(response);
  const [path] = what.split("?", 1) as [string];
  const before = known.get(path);
  if (before?.what === what && before.text === text) return before.value as T;
  const value = JSON.parse(text) as T;
  // Profiles are not kept here: they are large, and the worker keeps the last one.
  if (path !== "profile") known.set(path, { what, text, value });
  return value;
}

async function send<T>(what: string, body: unknown = {}): Promise<T> {
  return JSON.parse(await textOf(await fetch("api/" + what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }))) as T;
}

/** A time range of a folder; 0 is no limit. */
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
  suspects: (last: number, from = 0, until = 0, filters = "") => ask<Suspect[]>((from || until ? `suspects?${window(from, until)}` : `suspects?last=${last}`) + filters),
  stats: () => ask<Stats>("stats"),
  choices: () => ask<Choices>("choices"),
  requests: () => ask<Request[]>("requests"),
  settings: () => ask<Setting[]>("settings"),
  set: (name: string, value: string) => send<string>("settings", { name, value }),
  purge: () => send<string>("purge"),
  doctor: () => ask<Diagnosis>("doctor"),
  trace: (since: number) => ask<Traced>(`trace?since=${since}`),
  cpu: () => ask<CPU>("cpu"),
  startCPU: (for_s: number, hz: number) => send<CPU>("cpu", { for_s, hz }),
  endCPU: () => send<CPU>("cpu/stop"),
  map: () => ask<MapSums>("map"),
  mapParts: (from: string, to: string) => ask<MapParts>(`map/parts?from=${from}&to=${to}`),
  lifetimes: (filters = "") => ask<Lifetimes>(filters ? `lifetimes?${filters.slice(1)}` : "lifetimes"),
};
