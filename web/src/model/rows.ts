// Filters that the server does, since they choose rows of the profile and not stacks: sizes of blocks, labels, threads, a window of time.
import { isPattern } from "./stacks.ts";

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

/** What is added to the question for a profile; a range or an expression that cannot be read is none. */
export function asked(rows: Rows): string {
  const query = new URLSearchParams();
  if (isRange(rows)) {
    for (const [name, text] of [["size_from", rows.sizeFrom], ["size_to", rows.sizeTo]] as const) if (parseBytes(text)) query.set(name, String(parseBytes(text)));
  }
  if (rows.labels) query.set("labels", rows.labels);
  if (rows.thread && isPattern(rows.thread)) query.set("thread", rows.thread);
  if (rows.seconds > 0) query.set("seconds", String(rows.seconds));
  return query.size === 0 ? "" : `&${query}`;
}

/** The labels with one of them changed; "" takes it away. */
export function withLabel(labels: string, key: string, value: string): string {
  const all = new URLSearchParams(labels);
  if (value) all.set(key, value);
  else all.delete(key);
  return all.toString();
}
