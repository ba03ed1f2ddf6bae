// What of a profile's rows is shown, besides their stacks: sizes of blocks, how long they lived, who freed them, their pool, their
// thread, a window of time. Each is there where the kind of profile has it.
import { useState } from "preact/hooks";
import type { Stacks, State } from "../api.ts";
import { bytes } from "../model/format.ts";
import { isRange, withLabel } from "../model/rows.ts";
import { isPattern } from "../model/stacks.ts";
import type { Change, Shown } from "../state.ts";

const NAMES: Record<string, string> = { lifetime: "lived", freed_by: "freed by", pool: "pool" };

// A profile of these is as of one moment: its rows cannot be subtracted. The heap has its moments to be compared.
const TIMELESS = ["heap", "peak", "lifetime", "since"];

/** Values as "1ms to 10ms" by their length, not by their letters. */
function inOrder(values: string[]): string[] {
  const units: Record<string, number> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9 };
  const length = (text: string) => {
    const found = /^(?:under |over |from )?(\d+)\s*(ns|us|ms|s|m|h)\b/.exec(text);
    return found ? Number(found[1]) * units[found[2]!]! + (text.startsWith("under") ? -1 : 0) : Infinity;
  };
  return [...values].sort((a, b) => length(a) - length(b) || (a < b ? -1 : 1));
}

/** The server is asked when the text is done, not for each letter; until then it is kept here, whatever is drawn again. */
function Size({ text, value, example, bad, set }: { text: string; value: string; example: string; bad: boolean; set: (value: string) => void }) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <label title="Only blocks of this size: 4096, 4K, 1.5M">
      {text} <input value={typed ?? value} size={7} placeholder={example} aria-invalid={bad} onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => {
          set(event.currentTarget.value);
          setTyped(null);
        }} />
    </label>
  );
}

// The process is asked for its heap by thread where that is wanted: the one that is looked at all the time does not know threads.
const BY_THREAD = "threads";

/** The names of a profile's threads are offered; any regular expression that some of them match will do. */
function Thread({ names, value, set }: { names: string[]; value: string; set: (value: string) => void }) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <label title="Only what threads have allocated (of CPU time: used) whose name matches this regular expression, or that have this id">
      thread <input value={typed ?? value} size={12} list="thread-names" aria-invalid={!isPattern(typed ?? value)} onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => {
          set(event.currentTarget.value);
          setTyped(null);
        }} />
      <datalist id="thread-names">{names.map((name) => <option key={name} value={name} />)}</datalist>
    </label>
  );
}

export function RowFilters({ state, stacks, shown, change }: { state: State; stacks: Stacks | null; shown: Shown; change: Change }) {
  const byThread = shown.kind === "heap" && !!state.kinds?.some((kind) => kind.name === BY_THREAD);
  const elsewhere = byThread && <Thread names={[]} value="" set={(thread) => thread && change({ kind: BY_THREAD, thread, type: "", base: -1, at: 0, labels: "", seconds: 0 })} />;
  const labels = stacks?.labels;
  if (!labels) return elsewhere || null;
  const { thread: threads, ...texts } = labels.texts;
  const chosen = new URLSearchParams(shown.labels);
  const size = (name: "sizeFrom" | "sizeTo", text: string, example: string) => (
    <Size text={text} value={shown[name]} example={example} bad={!isRange(shown)} set={(value) => change({ [name]: value })} />
  );
  return (
    <>
      {labels.most > 0 && size("sizeFrom", "size from", bytes(labels.least))}
      {labels.most > 0 && size("sizeTo", "to", bytes(labels.most))}
      {Object.entries(texts).sort().map(([key, values]) => (
        <label key={key}>{NAMES[key] ?? key} <select value={chosen.get(key) ?? ""} onChange={(event) => change({ labels: withLabel(shown.labels, key, event.currentTarget.value) })}>
          <option value="">any</option>
          {inOrder(values).map((value) => <option key={value} value={value}>{value}</option>)}
        </select></label>
      ))}
      {threads ? <Thread names={threads} value={shown.thread} set={(thread) => change({ thread })} /> : elsewhere}
      {state.live && !TIMELESS.includes(shown.kind) && (
        <label title="What happens in so much time from now on, again and again">over <select value={shown.seconds} onChange={(event) => change({ seconds: Number(event.currentTarget.value) })}>
          <option value={0}>all the time</option>
          {[2, 5, 10, 30, 60].map((seconds) => <option key={seconds} value={seconds}>{seconds} s from now on</option>)}
        </select></label>
      )}
    </>
  );
}
