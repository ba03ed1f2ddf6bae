// The calls of a trace that pass the filters. The page applies the patterns itself, because it has all calls.
import type { TraceEvent } from "../answers.ts";
import { functionOf } from "./findings.ts";
import { passes, pattern, unreadable } from "./stacks.ts";

export interface Chosen {
  focus: string;
  ignore: string;
  thread: string; // a case-sensitive regular expression for its name, or its id
}

/** The error of the first invalid pattern; "": all are valid. */
export function problemOf(chosen: Chosen): string {
  return (["focus", "ignore", "thread"] as const).map((name) => unreadable(name, chosen[name])).find(Boolean) ?? "";
}

export function chosenOf(events: TraceEvent[], chosen: Chosen): TraceEvent[] {
  const [focus, ignore] = [pattern(chosen.focus), pattern(chosen.ignore)];
  const name = chosen.thread && !unreadable("thread", chosen.thread) ? new RegExp(chosen.thread) : null;
  return events.filter((event) => passes(event.stack.map(functionOf), focus, ignore) && (!name || name.test(event.thread_name) || String(event.thread) === chosen.thread));
}
