// The changes between two moments or two files: totals, and the stacks that are new, gone, grown and shrunk.
import { useState } from "preact/hooks";
import { api } from "../api.ts";
import { CHANGE_TYPES, type ChangeType } from "../model/changes.ts";
import { amount, count, percent } from "../model/format.ts";
import type { ViewProps } from "../viewprops.ts";
import { ChunkedRows } from "./chunkedrows.tsx";
import { Path } from "./path.tsx";

const CHANGE_HELP: Record<string, string> = {
  new: "Stacks without memory at that time.",
  grown: "Stacks with more memory than at that time.",
  shrunk: "Stacks with less memory than at that time, but not none.",
  gone: "Stacks without memory now.",
};

/** Shown before a comparison is selected. */
function ChooseComparison({ shown, change }: Pick<ViewProps, "shown" | "change">) {
  const [problem, setProblem] = useState("");
  const first = async () => {
    try {
      const moments = await api.moments(shown.from, shown.until);
      if (moments.length > 1) change({ base: moments[0]!.id });
      else setProblem("There is only one profile so far.");
    } catch (failure) {
      setProblem(failure instanceof Error ? failure.message : String(failure));
    }
  };
  return (
    <section>
      {shown.kind === "heap" ? (
        <>
          <div class="bar">
            <button onClick={() => void first()}>changes since the first profile</button>
            {problem && (
              <span class="problem" role="alert">
                {problem}
              </span>
            )}
          </div>
          <p class="note">
            Or choose two moments, or two files: drag over the time between them in the line above; or select the later
            one in <em>at</em> and the earlier one in <em>compared with</em>. For a running process,{" "}
            <em>compare from now on</em> stores this moment and shows the changes after it.
          </p>
        </>
      ) : (
        <p class="note">
          Only heap profiles are stored and can be compared: choose <em>profile</em> → <em>heap</em>.
        </p>
      )}
    </section>
  );
}

export function Changes({
  about: { unit, isComparison },
  data: { totals, rows, omitted, type },
  shown,
  change,
}: ViewProps<"changes">) {
  if (!isComparison) return <ChooseComparison shown={shown} change={change} />;
  const show = (changeType: string) => change({ what: shown.what === changeType ? "" : changeType });
  return (
    <section>
      <table class="figures" aria-label="Totals">
        <tbody>
          <tr>
            <td class="name">then</td>
            <td>{amount(totals.base, unit)}</td>
            <td />
            <td />
          </tr>
          {CHANGE_TYPES.map((changeType: ChangeType) => (
            <tr key={changeType}>
              <td class="name">
                <button
                  class="link"
                  aria-pressed={shown.what === changeType}
                  title={`${CHANGE_HELP[changeType]} Shows only these.`}
                  onClick={() => show(changeType)}
                >
                  {changeType}
                </button>
              </td>
              <td class={changeClass(totals.byType[changeType].change)}>
                {amount(totals.byType[changeType].change, unit, true)}
              </td>
              <td>{percent(totals.byType[changeType].change, totals.base)}</td>
              <td>
                {count(totals.byType[changeType].stacks)} {totals.byType[changeType].stacks === 1 ? "stack" : "stacks"}
              </td>
            </tr>
          ))}
          <tr>
            <td class="name">
              <strong>now</strong>
            </td>
            <td>
              <strong>{amount(totals.value, unit)}</strong>
            </td>
            <td>{percent(totals.value - totals.base, totals.base)}</td>
            <td>{amount(totals.value - totals.base, unit, true)} in all</td>
          </tr>
        </tbody>
      </table>
      <h2>{type ? `Stacks that are ${type}` : "Stacks that changed"}</h2>
      <table class="figures stacked" style={{ "--columns": 4 }} aria-label="Stacks">
        <thead>
          <tr>
            <th scope="col">change</th>
            <th scope="col">then</th>
            <th scope="col">now</th>
            <th scope="col">what</th>
            <th scope="col">allocated in</th>
          </tr>
        </thead>
        <tbody>
          <ChunkedRows
            rows={rows}
            chunkSize={50}
            renderRow={(row) => (
              <tr key={row.stack.join("\n")}>
                <td class={changeClass(row.value - row.base)}>{amount(row.value - row.base, unit, true)}</td>
                <td>{amount(row.base, unit)}</td>
                <td>{amount(row.value, unit)}</td>
                <td>{row.type}</td>
                <td class="name">
                  <Path stack={row.stack} inner={row.inner} change={change} maxNames={6} />
                </td>
              </tr>
            )}
          />
        </tbody>
      </table>
      {rows.length === 0 && (
        <p class="note">
          {shown.search
            ? `No stack that changed matches the search “${shown.search}”.`
            : type
              ? `No stack is ${type}: a click on ${type} shows all changes.`
              : "Nothing changed between these two moments: choose moments that are further apart."}
        </p>
      )}
      {omitted > 0 && <p class="note">{count(omitted)} more: search or filter to see them.</p>}
      <p class="note">
        Both sides are estimates from samples: a small stack may be new, or gone, by chance. <code>seemalloc diff</code>{" "}
        shows the error of each.
      </p>
    </section>
  );
}

function changeClass(change: number): string {
  return change > 0 ? "increase" : change < 0 ? "decrease" : "";
}
