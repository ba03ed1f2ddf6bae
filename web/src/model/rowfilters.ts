// Filters that the server applies, because they select rows of the profile and not stacks: block sizes, labels,
// threads, a time window.

const UNITS: Record<string, number> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };

/** Parses "4096", "4K" or "1.5 MiB" into bytes; "" is 0; null: invalid. */
export function parseBytes(text: string): number | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?\s*$/i.exec(text);
  if (text.trim() === "") return 0;
  return match ? Math.round(Number(match[1]) * UNITS[match[2]!.toLowerCase()]!) : null;
}

/** How the page calls the labels of rows. */
export const LABEL_NAMES: Record<string, string> = { lifetime: "lived", freed_by: "freed by" };

export interface RowFilter {
  sizeFrom: string; // as typed
  sizeTo: string;
  labels: string; // "lifetime=alive&pool=cache"
  thread: string; // a regular expression, or an id
  seconds: number; // 0: since the start
}

/** Whether the sizes form a valid range. */
export function isValidRange(rows: Pick<RowFilter, "sizeFrom" | "sizeTo">): boolean {
  const [from, to] = [parseBytes(rows.sizeFrom), parseBytes(rows.sizeTo)];
  return from !== null && to !== null && (to === 0 || from <= to);
}

/** Whether all sizes are selected: there is no range, or it is invalid. */
export function acceptsAllSizes(rows: Pick<RowFilter, "sizeFrom" | "sizeTo">): boolean {
  return !isValidRange(rows) || (!parseBytes(rows.sizeFrom) && !parseBytes(rows.sizeTo));
}

/** Whether blocks of this size are selected. An invalid range selects all. */
export function acceptsSize(rows: Pick<RowFilter, "sizeFrom" | "sizeTo">, bytes: number): boolean {
  if (!isValidRange(rows)) return true;
  const [from, to] = [parseBytes(rows.sizeFrom)!, parseBytes(rows.sizeTo)!];
  return bytes >= from && (to === 0 || bytes <= to);
}

/**
 * The query parameters for a profile. An invalid range is omitted. Thread patterns are sent unchecked, because
 * the server's syntax differs from that of JavaScript.
 */
export function rowQuery(rows: RowFilter): string {
  const query = new URLSearchParams();
  if (isValidRange(rows)) {
    for (const [name, text] of [
      ["size_from", rows.sizeFrom],
      ["size_to", rows.sizeTo],
    ] as const)
      if (parseBytes(text)) query.set(name, String(parseBytes(text)));
  }
  if (rows.labels) query.set("labels", rows.labels);
  if (rows.thread) query.set("thread", rows.thread);
  if (rows.seconds > 0) query.set("seconds", String(rows.seconds));
  return query.size === 0 ? "" : `&${query}`;
}

/** The filters for properties that no row of the profile has, so that no row passes. */
export function unsupportedFilters(
  rows: RowFilter,
  labels: { most: number; texts: Record<string, string[]> },
): string[] {
  return [
    ...(!acceptsAllSizes(rows) && labels.most === 0 ? ["size"] : []),
    ...[...new URLSearchParams(rows.labels).keys(), ...(rows.thread ? ["thread"] : [])].filter(
      (name) => !labels.texts[name],
    ),
  ];
}

/** The labels after a change of one of them; "" removes it. */
export function withLabel(labels: string, key: string, value: string): string {
  const all = new URLSearchParams(labels);
  if (value) all.set(key, value);
  else all.delete(key);
  return all.toString();
}
