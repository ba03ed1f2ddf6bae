// The calls of a trace that pass the filters. The page applies the patterns itself, because it has all calls.
import type { TraceEvent } from "../answers.ts";
import { functionAt } from "./findings.ts";
import { compilePattern, matchesFilters, patternError } from "./stacks.ts";

export interface EventFilter {
  focus: string;
  ignore: string;
  thread: string; // a case-sensitive regular expression for its name, or its id
}

/** The error of the first invalid pattern; "": all are valid. */
export function filterError(filter: EventFilter): string {
  return (["focus", "ignore", "thread"] as const).map((name) => patternError(name, filter[name])).find(Boolean) ?? "";
}

export function filterEvents(events: TraceEvent[], filter: EventFilter): TraceEvent[] {
  const [focus, ignore] = [compilePattern(filter.focus), compilePattern(filter.ignore)];
  const name = filter.thread && !patternError("thread", filter.thread) ? new RegExp(filter.thread) : null;
  return events.filter(
    (event) =>
      matchesFilters(event.stack.map(functionAt), focus, ignore) &&
      (!name || name.test(event.thread_name) || String(event.thread) === filter.thread),
  );
}
