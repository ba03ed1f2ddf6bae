// Filters that the server does, since they choose rows of the profile and not stacks: sizes of blocks, labels, threads, a window of time.

const UNITS: Record<string, number> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };

/** "4096", "4K", "1.5 MiB" in bytes; "" is 0; null: none of these. */
export function parseBytes(text: string): number | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?\s*$/i.exec(text);
  if (text.trim() === "") return 0;
  return match ? Math.round(Number(match[1]) * UNITS[match[2]!.toLowerCase()]!) : null;
}

export interface Rows {
  sizeFrom: string; // as it was typed
  sizeTo: string;
  labels: string; // "lifetime=alive&pool=cache"
  thread: string; // a regular expression, or an id
  seconds: number; // 0: all that happened
}

/** The sizes fit together, as far as they can be read. */
export function isRange(rows: Pick<Rows, "sizeFrom" | "sizeTo">): boolean {
  const [from, to] = [parseBytes(rows.sizeFrom), parseBytes(rows.sizeTo)];
  return from !== null && to !== null && (to === 0 || from <= to);
}

/** Nothing is left out: there is no range, or none that can be read. */
export function isAllSizes(rows: Pick<Rows, "sizeFrom" | "sizeTo">): boolean {
  return !isRange(rows) || (!parseBytes(rows.sizeFrom) && !parseBytes(rows.sizeTo));
}

/** Whether blocks of so many bytes are among those that are shown; of a range that cannot be read all are. */
export function hasSize(rows: Pick<Rows, "sizeFrom" | "sizeTo">, bytes: number): boolean {
  if (!isRange(rows)) return true;
  const [from, to] = [parseBytes(rows.sizeFrom)!, parseBytes(rows.sizeTo)!];
  return bytes >= from && (to === 0 || bytes <= to);
}

/** What is added to the question for a profile; a range that cannot be read is none. The server reads patterns of threads in another way than JavaScript does: it judges them. */
export function asked(rows: Rows): string {
  const query = new URLSearchParams();
  if (isRange(rows)) {
    for (const [name, text] of [["size_from", rows.sizeFrom], ["size_to", rows.sizeTo]] as const) if (parseBytes(text)) query.set(name, String(parseBytes(text)));
  }
  if (rows.labels) query.set("labels", rows.labels);
  if (rows.thread) query.set("thread", rows.thread);
  if (rows.seconds > 0) query.set("seconds", String(rows.seconds));
  return query.size === 0 ? "" : `&${query}`;
}

/** What rows are chosen by that a profile does not tell of any: none of its rows passes. */
export function untoldOf(rows: Rows, labels: { most: number; texts: Record<string, string[]> }): string[] {
  return [
    ...(!isAllSizes(rows) && labels.most === 0 ? ["size"] : []),
    ...[...new URLSearchParams(rows.labels).keys(), ...(rows.thread ? ["thread"] : [])].filter((name) => !labels.texts[name]),
  ];
}

/** The labels with one of them changed; "" takes it away. */
export function withLabel(labels: string, key: string, value: string): string {
  const all = new URLSearchParams(labels);
  if (value) all.set(key, value);
  else all.delete(key);
  return all.toString();
}
