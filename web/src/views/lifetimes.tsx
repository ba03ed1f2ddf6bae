// Lifetimes of blocks: a histogram of their ages, and the allocating stacks, those with the most temporary blocks
// first.
import { useMemo, useRef } from "preact/hooks";
import type { LifetimeRow, State } from "../answers.ts";
import { api } from "../api.ts";
import { SavePicture } from "../draw/picture.tsx";
import { snapshot } from "../draw/snapshot.ts";
import { bytes, clock, count, duration, percent } from "../model/format.ts";
import { rowQuery } from "../model/rowfilters.ts";
import { type Change, useRequest, type ViewState } from "../state.ts";
import { Busy } from "./busy.tsx";
import { ChunkedRows } from "./chunkedrows.tsx";
import { UnknownFreeingStacks } from "./deaths.tsx";
import { FilterBar } from "./filterbar.tsx";
import { Path } from "./path.tsx";
import { SizeRange, ThreadFilter, threadSettings } from "./rowfilters.tsx";
import { filterQuery, StackFilter } from "./stackfilter.tsx";
import { Term } from "./term.tsx";

const TEMPORARY = "#f59e0b";
const LASTING = "#2563eb";
const MAX_ROWS = 200;

type Order = "short" | "freed" | "bytes" | "mean";

const ORDERS: Record<Order, [string, (row: LifetimeRow) => number]> = {
  short: ["temporary blocks", (row) => row.short_objects],
  bytes: ["bytes freed", (row) => row.freed_bytes],
  freed: ["blocks freed", (row) => row.freed],
  mean: ["mean age", (row) => row.mean_ns],
};

/** The ages of one stack as a small bar chart. */
function Ages({ row, short, classes }: { row: LifetimeRow; short: number; classes: string[] }) {
  const most = Math.max(1, ...row.ages);
  const text = classes.flatMap((name, i) => (row.ages[i] ? [`${name}: ${count(row.ages[i]!)}`] : [])).join(", ");
  return (
    <svg width={classes.length * 9} height="20" role="img" aria-label={text || "none has been freed"}>
      <title>{text}</title>
      {row.ages.map(
        (blocks, i) =>
          blocks > 0 && (
            <rect
              key={i}
              x={i * 9}
              width="8"
              y={20 - Math.max(2, (20 * blocks) / most)}
              height={Math.max(2, (20 * blocks) / most)}
              fill={i < short ? TEMPORARY : LASTING}
            />
          ),
      )}
    </svg>
  );
}

export function Lifetimes({ state, shown, change }: { state: State; shown: ViewState; change: Change }) {
  const picture = useRef<HTMLDivElement>(null);
  // A report has unfiltered lifetimes only.
  const query = state.report ? "" : filterQuery(shown) + rowQuery({ ...shown, labels: "", seconds: 0 });
  const { value, problem } = useRequest(() => api.lifetimes(query), 5000, [query]);
  const bar = (
    <FilterBar
      shown={shown}
      change={change}
      line={value && <SavePicture name="seemalloc.lifetimes" draw={() => snapshot(picture.current!)} />}
    >
      {!state.report && (
        <>
          <StackFilter shown={shown} change={change} problem={problem} modules={value?.modules ?? []} />
          <SizeRange shown={shown} change={change} />
          {(value?.threads || shown.thread) && (
            <ThreadFilter
              names={value?.threads ?? []}
              value={shown.thread}
              problem={problem}
              set={(text) => change(shown.kind === "heap" ? threadSettings(state, text) : { thread: text })}
            />
          )}
        </>
      )}
    </FilterBar>
  );
  const order = Object.hasOwn(ORDERS, shown.by) ? (shown.by as Order) : "short";
  const selectedClass = value?.classes.indexOf(shown.lived) ?? -1;
  const rows = useMemo(
    () =>
      (value?.rows ?? [])
        .filter((row) => selectedClass < 0 || row.ages[selectedClass]! > 0)
        .sort((a, b) => ORDERS[order][1](b) - ORDERS[order][1](a)),
    [value, selectedClass, order],
  );
  const drawn = useMemo(() => rows.slice(0, MAX_ROWS), [rows, state]); // its links depend on the state
  if (!value)
    return (
      <section>
        {bar}
        {problem ? (
          <p class="problem" role="alert">
            {problem}
          </p>
        ) : (
          <p>
            <Busy>Reads the lifetimes</Busy>
          </p>
        )}
      </section>
    );
  const freed = value.freed.reduce((sum, one) => sum + one, 0);
  const temporary = value.freed.slice(0, value.short).reduce((sum, one) => sum + one, 0);
  const most = Math.max(1, ...value.freed);
  const ofThread = !state.report && shown.thread !== "";
  // Freed blocks are not in the heap profile, and the profile of temporary blocks has no threads.
  const linkTo =
    (kind: string, type = ""): Change =>
    (some) =>
      change({ ...some, kind, type, at: 0, base: -1 });
  const toRow = (row: LifetimeRow) =>
    ofThread ? linkTo("lifetime", row.freed ? "freed_space" : "alive_space") : linkTo("churn");
  const hasDeaths = value.deaths !== undefined && (state.kinds ?? []).some((kind) => kind.name === "deaths");
  return (
    <section>
      {bar}
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <div ref={picture}>
        <p class="total">
          <strong>{percent(temporary, freed) || "None"}</strong> of {count(freed)} freed blocks were{" "}
          <Term name="temporary" />; {count(value.alive)} {state.live ? "are" : "were"} alive
          {!state.live && value.t ? ` at ${clock(value.t)}` : ""}.
        </p>
        <table class="figures histogram">
          <caption>
            Freed blocks by their <Term name="lifetime" />
          </caption>
          <thead>
            <tr>
              <th scope="col" class="name">
                lived
              </th>
              <th scope="col">blocks</th>
              <th scope="col">%</th>
              <th scope="col">bytes</th>
              <th scope="col">blocks</th>
            </tr>
          </thead>
          <tbody>
            {value.classes.map((name, i) => (
              <tr key={name}>
                <td class="name">
                  <button
                    class="link"
                    aria-pressed={selectedClass === i}
                    onClick={() => change({ lived: selectedClass === i ? "" : name })}
                  >
                    {name}
                  </button>
                </td>
                <td>{count(value.freed[i]!)}</td>
                <td>{percent(value.freed[i]!, freed)}</td>
                <td>{bytes(value.bytes[i]!)}</td>
                <td class="meter">
                  <span
                    style={{
                      width: `${(100 * value.freed[i]!) / most}%`,
                      background: i < value.short ? TEMPORARY : LASTING,
                    }}
                  />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        {ofThread && (
          <p class="note">
            By the thread that allocated the blocks. The freeing stacks are not known by thread. Freed blocks without a
            recorded owner are shown under the thread <code>(other threads)</code>: if every allocation is recorded (
            <code>sample:1</code>), these are all blocks except those that the first thread with a stack has freed
            itself, unless <code>free_stacks:all</code> is set.
          </p>
        )}
        {value.deaths && <UnknownFreeingStacks freed={value.deaths} state={state} />}
        <div class="bar">
          {hasDeaths && value.deaths!.known > 0 && (
            <button onClick={() => linkTo("deaths")({ view: "flame", zoom: "" })}>freeing stacks</button>
          )}
          <label>
            order by{" "}
            <select value={order} onChange={(event) => change({ by: event.currentTarget.value })}>
              {Object.entries(ORDERS).map(([id, [name]]) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </select>
          </label>
          {selectedClass >= 0 && (
            <span>
              only stacks with blocks that lived {value.classes[selectedClass]}{" "}
              <button onClick={() => change({ lived: "" })}>all</button>
            </span>
          )}
        </div>
        <table class="figures stacks stacked" style={{ "--columns": 3 }}>
          <thead>
            <tr>
              <th scope="col">
                <Term name="temporary" />
              </th>
              <th scope="col">of freed</th>
              <th scope="col">freed</th>
              <th scope="col">bytes</th>
              <th scope="col">alive</th>
              <th scope="col">
                <Term name="by another thread" />
              </th>
              <th scope="col">mean age</th>
              <th scope="col">greatest</th>
              <th scope="col">ages</th>
              <th scope="col">allocated in, called by …</th>
            </tr>
          </thead>
          <tbody>
            <ChunkedRows
              rows={drawn}
              chunkSize={25}
              renderRow={(row) => (
                <tr key={row.stack.join("\n")}>
                  <td>{count(row.short_objects)}</td>
                  <td>{percent(row.short_objects, row.freed)}</td>
                  <td>{count(row.freed)}</td>
                  <td>{bytes(row.freed_bytes)}</td>
                  <td>{count(row.alive)}</td>
                  <td>{percent(row.elsewhere, row.freed)}</td>
                  <td>{row.freed ? duration(row.mean_ns) : ""}</td>
                  <td>{row.freed ? duration(row.most_ns) : ""}</td>
                  <td>
                    <Ages row={row} short={value.short} classes={value.classes} />
                  </td>
                  <td class="name">
                    <Path stack={row.stack} inner={row.inner} change={toRow(row)} maxNames={8} />
                    {row.by && (
                      <small class="freed-by">
                        freed by{" "}
                        {hasDeaths ? (
                          <button class="link" onClick={() => linkTo("deaths")({ view: "callers", function: row.by! })}>
                            {row.by}
                          </button>
                        ) : (
                          row.by
                        )}
                        {row.by_objects! < 0.995 * row.freed && `, ${percent(row.by_objects!, row.freed)} of them`}
                      </small>
                    )}
                  </td>
                </tr>
              )}
            />
          </tbody>
        </table>
      </div>
      {rows.length === 0 && (
        <p class="note">
          {query || selectedClass >= 0
            ? "No sampled block passes the filters: remove some of them."
            : "No block has been sampled yet: the program has allocated too little so far."}
        </p>
      )}
      {rows.length + value.more > MAX_ROWS && (
        <p class="note">{rows.length + value.more - MAX_ROWS} more stacks, with fewer blocks.</p>
      )}
      <p class="note">
        Since the start of the process, estimated from samples. If every allocation is recorded (<code>sample:1</code>),
        ages are accurate to 10 ms.
      </p>
      <details class="note">
        <summary>Profile details</summary>
        <ul>
          {(value.says ?? []).map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      </details>
    </section>
  );
}
