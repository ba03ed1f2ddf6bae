// The data in a report (tool/web/report.go), which replaces the server. Answers are cached, so that equal requests get
// the same object.
import type { Frame, Moment, Point, SampleType, Stacks, Suspect } from "../answers.ts";
import { matchesFilters, patternError } from "./stacks.ts";

export interface ReportData {
  answers: Record<string, unknown>;
  missing: Record<string, string>; // with the reason
  frames: Frame[];
  stacks: number[][];
  profiles: Record<string, ReportProfile>; // "heap 7"
}

interface ReportProfile {
  types: SampleType[];
  default: number;
  period: number;
  t: number;
  comments: string[] | null;
  errors: (number | null)[];
  rows: number[][]; // the index of the stack, followed by its values
  threads?: string[];
  row_threads?: number[]; // for each row the index of its thread; -1: none
}

/** Compiles a pattern. Throws the server's error text if the pattern is invalid. */
function compilePattern(name: string, text: string, flags = ""): RegExp {
  try {
    return new RegExp(text, flags);
  } catch {
    throw new Error(patternError(name, text));
  }
}

/** The rows of matching threads, or all rows without a pattern. */
function selectRows({ rows, threads, row_threads: of }: ReportProfile, thread: string | null): number[][] {
  if (!thread) return rows;
  if (!threads || !of)
    throw new Error("this report cannot be filtered by thread: its samples have no threads, or more than 100");
  const threadPattern = compilePattern("thread", thread);
  return rows.filter((_, i) => of[i]! >= 0 && threadPattern.test(threads[of[i]!]!));
}

function typeNames(profile: ReportProfile): string {
  return profile.types.map((type) => `${type.name} in ${type.unit}`).join(", ");
}

export class ReportAnswers {
  private readonly cache = new Map<string, unknown>();
  private readonly report: ReportData;

  constructor(report: ReportData) {
    this.report = report;
  }

  /** Whether rows of this kind can be selected by thread. */
  hasThreads(kind: string): boolean {
    return !!this.report.profiles[`${kind} 0`]?.row_threads;
  }

  /** The server's answer to GET api/WHAT. Throws if the report does not have it. */
  answer(request: string): unknown {
    if (!this.cache.has(request)) this.cache.set(request, this.find(request));
    return this.cache.get(request);
  }

  private find(request: string): unknown {
    const [path, query] = request.split("?", 2) as [string, string?];
    const params = new URLSearchParams(query);
    for (const name of ["size_from", "size_to", "labels", "seconds"])
      if (params.has(name)) throw new Error(`${name}=${params.get(name)}: the rows of a report do not have that`);
    if (path === "profile") return this.profile(params);
    if (path === "suspects") return this.suspects(params);
    const all = this.report.answers[request] ?? this.report.answers[path];
    if (path === "series") return ((all ?? []) as Point[]).filter((point) => point.t > Number(params.get("since")));
    if (all === undefined) throw new Error(this.report.missing[path] ?? "this report does not have it");
    return all;
  }

  /** From the suspects in the report. */
  private suspects(params: URLSearchParams): Suspect[] {
    const all = this.report.answers[`suspects?last=${params.get("last") ?? 0}`] as Suspect[] | undefined;
    if (all === undefined) throw new Error(this.report.missing.suspects ?? "this report does not have it");
    const [focus, ignore] = ["focus", "ignore"].map((name) =>
      params.get(name) ? compilePattern(name, params.get(name)!, "i") : null,
    );
    return all.filter((one) => matchesFilters(one.stack, focus!, ignore!));
  }

  private profile(params: URLSearchParams): Stacks {
    const kind = params.get("kind") || "heap";
    const now = this.findProfile(kind, params.get("at"));
    const base = kind === "heap" && params.has("base") ? this.findProfile("heap", params.get("base")) : null;
    const { rows: _, threads, row_threads: __, ...about } = now;
    const thread = params.get("thread");
    const rows = selectRows(now, thread);
    // The sample types that both have, with their columns in either profile, as in NewStacks (tool/web/stacks.go).
    const columns = now.types
      .map(
        (type, i) =>
          [
            i,
            base ? base.types.findIndex((other) => other.name === type.name && other.unit === type.unit) : i,
          ] as const,
      )
      .filter(([, other]) => other >= 0);
    if (base && columns.length === 0)
      throw new Error(
        `the two profiles have no sample type in common: one is of ${typeNames(now)}, the other of ${typeNames(base)}`,
      );
    const places = new Map<number, number>();
    const stacks: Stacks = {
      ...about,
      frames: this.report.frames,
      stacks: [],
      values: [],
      types: columns.map(([i]) => now.types[i]!),
      default: Math.max(
        0,
        columns.findIndex(([i]) => i === now.default),
      ),
      errors: columns.map(([i]) => (thread ? null : now.errors[i]!)), // known only for the whole profile
    };
    const nothing = () => columns.map(() => 0);
    const place = (index: number): number => {
      let known = places.get(index);
      if (known === undefined) {
        known = stacks.stacks.length;
        places.set(index, known);
        stacks.stacks.push(this.report.stacks[index]!);
        stacks.values.push(nothing());
      }
      return known;
    };
    // A stack has one row per thread.
    for (const [index, ...values] of rows) {
      const sums = stacks.values[place(index!)]!;
      for (const [column, [i]] of columns.entries()) sums[column]! += values[i]!;
    }
    if (threads) stacks.labels = { least: 0, most: 0, texts: { thread: threads } };
    if (base) {
      const earlier = selectRows(base, thread);
      for (const [index] of earlier) place(index!);
      stacks.base = stacks.stacks.map(nothing);
      for (const [index, ...values] of earlier) {
        const sums = stacks.base[place(index!)]!;
        for (const [column, [, i]] of columns.entries()) sums[column]! += values[i]!;
      }
      stacks.base_errors = columns.map(([, i]) => (thread ? null : base.errors[i]!));
    }
    return stacks;
  }

  private findProfile(kind: string, at: string | null): ReportProfile {
    const moments = (this.report.answers.moments ?? []) as Moment[];
    const id = Number(at) || (kind === "heap" ? (moments[moments.length - 1]?.id ?? 0) : 0);
    const found = this.report.profiles[`${kind} ${kind === "heap" ? id : 0}`];
    if (!found) throw new Error(id ? `this report has no profile ${id}` : `this report has no ${kind} profile`);
    return found;
  }
}
