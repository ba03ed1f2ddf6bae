// The link to pprof's own pages for the displayed profile (tool/web/pprof.go), which link back.
import { rowQuery } from "../model/rowfilters.ts";
import type { ViewState } from "../state.ts";

export function pprofAddress(shown: ViewState, type: string): string {
  const name = shown.kind !== "heap" ? shown.kind : shown.base >= 0 ? `${shown.at}-${shown.base}` : String(shown.at);
  const query = new URLSearchParams();
  if (type) query.set("si", type);
  // pprof's patterns are case-sensitive, this page's are not.
  for (const [key, text] of [
    ["f", shown.focus],
    ["i", shown.ignore],
    ["h", shown.hide],
  ] as const)
    if (text) query.set(key, `(?i)${text}`);
  if (shown.thread) query.set("tf", /^\d+$/.test(shown.thread) ? `tid=${shown.thread}` : `thread=(?:${shown.thread})`); // pprof's -tagfocus
  return `pprof/${name}/top?${query}`;
}

/** pprof splits patterns at commas, and parses a long run of digits as a number that it cannot represent. */
function isTagFocus(pattern: string): boolean {
  return !/,|\d{19}/.test(pattern);
}

export function PprofLink({ shown, type }: { shown: ViewState; type: string }) {
  if (rowQuery({ ...shown, thread: "" }) || shown.module || !isTagFocus(shown.thread))
    return (
      <span class="note" title="pprof's pages have no filters of module, size, labels or time">
        no pprof with these filters
      </span>
    );
  return (
    <a
      href={pprofAddress(shown, type)}
      title="The same profile in the pages of pprof: top, graph, peek, source, disassembly"
    >
      pprof
    </a>
  );
}
