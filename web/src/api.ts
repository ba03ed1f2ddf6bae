// The requests to the server (tool/web/server.go). Paths are relative, because the page is below
// its token. In a report (tool/web/report.go) there is no server: the answers are in the page.
import type {
  Choices,
  CPU,
  Diagnosis,
  Lifetimes,
  MapParts,
  MapSums,
  Moment,
  Point,
  ProcessInfo,
  Request,
  Setting,
  Source,
  Stacks,
  State,
  Stats,
  Suspect,
  Traced,
} from "./answers.ts";
import { ReportAnswers, type ReportData } from "./model/reportanswers.ts";

async function responseText(response: Response): Promise<string> {
  const text = await response.text();
  if (!response.ok) throw new Error(text.trim() || response.statusText);
  return text;
}

// The worker has no document.
const reportElement = typeof document === "undefined" ? null : document.getElementById("report");
const reportAnswers = reportElement && new ReportAnswers(JSON.parse(reportElement.textContent!) as ReportData);

/** A report has no server for further requests. */
export const isReport = !!reportAnswers;

/**
 * Whether rows of this kind of profile can be selected by thread, as far as that is known without requesting the
 * profile.
 */
export function hasThreads(kind: string): boolean {
  return !reportAnswers || reportAnswers.hasThreads(kind);
}

// The last answer for each path. The same text gives the same object, so that nothing is redrawn.
const lastAnswers = new Map<string, { request: string; text: string; value: unknown }>();

async function get<T>(request: string): Promise<T> {
  if (reportAnswers) return reportAnswers.answer(request) as T;
  let response: Response;
  try {
    response = await fetch("api/" + request);
  } catch {
    throw new Error("seemalloc web no longer answers");
  }
  const text = await responseText(response);
  const [endpoint] = request.split("?", 1) as [string];
  const previous = lastAnswers.get(endpoint);
  if (previous?.request === request && previous.text === text) return previous.value as T;
  const value = JSON.parse(text) as T;
  // Profiles are not kept here: they are large, and the worker keeps the last one.
  if (endpoint !== "profile") lastAnswers.set(endpoint, { request, text, value });
  return value;
}

async function post<T>(endpoint: string, body: unknown = {}): Promise<T> {
  return JSON.parse(
    await responseText(
      await fetch("api/" + endpoint, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      }),
    ),
  ) as T;
}

/** A time range of a folder; 0 is no limit. */
function timeRange(from: number, until: number): string {
  return `from=${from}&until=${until}`;
}

export const api = {
  state: () => get<State>("state"),
  between: (from: number, until: number) => get<Point[]>(`series?${timeRange(from, until)}`),
  series: (since: number) => get<Point[]>(`series?since=${since}`),
  moments: (from = 0, until = 0) => get<Moment[]>(from || until ? `moments?${timeRange(from, until)}` : "moments"),
  takeMoment: () => post<Moment>("moments"),
  stacks: (kind: string, at: number, base?: number, rows = "") =>
    get<Stacks>(`profile?kind=${kind}&at=${at}${base === undefined ? "" : `&base=${base}`}${rows}`),
  source: (file: string) => get<Source>(`source?file=${encodeURIComponent(file)}`),
  suspects: (last: number, from = 0, until = 0, filters = "") =>
    get<Suspect[]>((from || until ? `suspects?${timeRange(from, until)}` : `suspects?last=${last}`) + filters),
  process: () => get<ProcessInfo | null>("process"), // null: an older tool wrote the folder
  stats: () => get<Stats>("stats"),
  choices: () => get<Choices>("choices"),
  requests: () => get<Request[]>("requests"),
  settings: () => get<Setting[]>("settings"),
  set: (name: string, value: string) => post<string>("settings", { name, value }),
  purge: () => post<string>("purge"),
  doctor: () => get<Diagnosis>("doctor"),
  trace: (since: number) => get<Traced>(`trace?since=${since}`),
  cpu: () => get<CPU>("cpu"),
  startCPU: (for_s: number, hz: number) => post<CPU>("cpu", { for_s, hz }),
  endCPU: () => post<CPU>("cpu/stop"),
  map: () => get<MapSums>("map"),
  mapParts: (from: string, to: string) => get<MapParts>(`map/parts?from=${from}&to=${to}`),
  lifetimes: (filters = "") => get<Lifetimes>(filters ? `lifetimes?${filters.slice(1)}` : "lifetimes"),
};
