// The filters for a profile's rows, apart from stacks: block sizes, lifetimes, freeing thread, pool, thread, and a time
// window. A filter is shown if the kind of profile supports it.
import type { Labels, State } from "../answers.ts";
import { hasThreads } from "../api.ts";
import { bytes } from "../model/format.ts";
import { isValidRange, LABEL_NAMES, unsupportedFilters, withLabel } from "../model/rowfilters.ts";
import type { Change, ViewState } from "../state.ts";
import { isRejected, TextInput } from "./textinput.tsx";

// Profiles of these kinds show a single moment and cannot be subtracted. The heap has moments to compare, and CPU
// profiles have their own duration.
const NO_WINDOW_KINDS = ["heap", "peak", "lifetime", "since", "cpu"];

/** Sorts values such as "1ms to 10ms" by duration. */
function sortByDuration(values: string[]): string[] {
  const units: Record<string, number> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9 };
  const length = (text: string) => {
    const found = /^(?:under |over |from )?(\d+)\s*(ns|us|ms|s|m|h)\b/.exec(text);
    return found ? Number(found[1]) * units[found[2]!]! + (text.startsWith("under") ? -1 : 0) : Infinity;
  };
  return [...values].sort((a, b) => length(a) - length(b) || (a < b ? -1 : 1));
}

/** The two limits. examples: the smallest and the largest existing size. */
export function SizeRange({
  shown,
  change,
  examples = ["", ""],
}: {
  shown: ViewState;
  change: Change;
  examples?: [string, string];
}) {
  return (["sizeFrom", "sizeTo"] as const).map((name, i) => (
    <TextInput
      key={name}
      text={["size from", "to"][i]!}
      help="Only blocks of this size: 4096, 4K, 1.5M"
      width={7}
      value={shown[name]}
      example={examples[i]!}
      invalid={!isValidRange(shown)}
      set={(text) => change({ [name]: text })}
    />
  ));
}

// The heap by thread is requested on demand, because the regular heap profiles have no threads.
const BY_THREAD = "threads";

function hasByThread(state: State): boolean {
  return !!state.kinds?.some((kind) => kind.name === BY_THREAD) && hasThreads(BY_THREAD);
}

/** The state for a thread filter: if the displayed profile has no threads, it selects one that has. */
export function threadSettings(state: State, thread: string): Partial<ViewState> {
  return thread && hasByThread(state)
    ? { kind: BY_THREAD, thread, type: "", base: -1, at: 0, labels: "", seconds: 0 }
    : { thread };
}

/** Suggests the names of a profile's threads, but accepts any regular expression. The server validates it. */
export function ThreadFilter({
  names,
  value,
  problem,
  set,
}: {
  names: string[];
  value: string;
  problem: string;
  set: (value: string) => void;
}) {
  return (
    <TextInput
      text="thread"
      help="Only what threads have allocated (of CPU time: used) whose name matches this regular expression, or that have this id"
      width={12}
      value={value}
      names={names}
      invalid={isRejected("thread", value, problem)}
      set={set}
    />
  );
}

interface Props {
  state: State;
  labels: Labels | undefined;
  shown: ViewState;
  change: Change;
  problem: string; // the server's answer
}

export function RowFilters({ state, labels, shown, change, problem }: Props) {
  const isHeapByThread = shown.kind === "heap" && hasByThread(state);
  // A filter that is set can be removed, even if the profile has no threads, or if the pattern of a link was rejected
  // before the first answer.
  const thread = (names: string[] | undefined) =>
    (names || shown.thread || isHeapByThread) && (
      <ThreadFilter
        names={names ?? []}
        value={shown.thread}
        problem={problem}
        set={(text) => change(!names && isHeapByThread ? threadSettings(state, text) : { thread: text })}
      />
    );
  if (!labels) return thread(undefined) || null;
  const { thread: threads, ...texts } = labels.texts;
  const selectedLabels = new URLSearchParams(shown.labels);
  const values = (key: string) => sortByDuration([...new Set([...(texts[key] ?? []), ...selectedLabels.getAll(key)])]);
  return (
    <>
      {(labels.most > 0 || shown.sizeFrom || shown.sizeTo) && (
        <SizeRange
          shown={shown}
          change={change}
          examples={labels.most > 0 ? [bytes(labels.least), bytes(labels.most)] : ["", ""]}
        />
      )}
      {[...new Set([...Object.keys(texts), ...selectedLabels.keys()])].sort().map((key) => (
        <label key={key}>
          {LABEL_NAMES[key] ?? key}{" "}
          <select
            value={selectedLabels.get(key) ?? ""}
            onChange={(event) => change({ labels: withLabel(shown.labels, key, event.currentTarget.value) })}
          >
            <option value="">any</option>
            {values(key).map((value) => (
              <option key={value} value={value}>
                {value}
              </option>
            ))}
          </select>
        </label>
      ))}
      {thread(threads)}
      {state.live && !NO_WINDOW_KINDS.includes(shown.kind) && (
        <label title="What happens in so much time from now on, again and again">
          over{" "}
          <select value={shown.seconds} onChange={(event) => change({ seconds: Number(event.currentTarget.value) })}>
            <option value={0}>all the time</option>
            {[2, 5, 10, 30, 60].map((seconds) => (
              <option key={seconds} value={seconds}>
                {seconds} s from now on
              </option>
            ))}
          </select>
        </label>
      )}
    </>
  );
}

/** The message about filters for properties that the profile's rows do not have. */
export function UnsupportedFilters({ labels, shown }: { labels: Labels | undefined; shown: ViewState }) {
  const unsupported = labels ? unsupportedFilters(shown, labels) : [];
  return unsupported.length > 0 ? (
    <p class="note" role="status">
      Profiles of the kind {shown.kind} do not tell {unsupported.map((name) => LABEL_NAMES[name] ?? name).join(", ")}:
      no row passes.
    </p>
  ) : null;
}
