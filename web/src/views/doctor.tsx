// Doctor's findings: all of them with their explanations, and in short for the summary.
import { useState } from "preact/hooks";
import type { Diagnosis, State } from "../answers.ts";
import { api } from "../api.ts";
import { FINDING_VIEWS, functionAt } from "../model/findings.ts";
import { bytes } from "../model/format.ts";
import { missingData } from "../model/views.ts";
import { type Change, kindSettings, useRequest, type ViewState } from "../state.ts";
import { Busy } from "./busy.tsx";
import { Problem } from "./problem.tsx";
import { PROFILE_VIEWS } from "./profile.tsx";

const SUMMARY_INTERVAL_MS = 60_000;

function findingView(id: string, state: State): Partial<ViewState> | undefined {
  const { view, kind = "heap", type = "" } = FINDING_VIEWS[id] ?? {};
  if (!view || missingData(view, state)) return undefined;
  if (!Object.hasOwn(PROFILE_VIEWS, view)) return { view };
  // A profile that can no longer be taken is not requested.
  const has = kind === "heap" || state.kinds?.some((one) => one.name === kind);
  return { view, ...kindSettings(has ? kind : "heap"), type: has ? type : "", sizeFrom: "", sizeTo: "" };
}

/**
 * What doctor looked at, and for how long. It is shown as good only if every check could look and none found a
 * problem.
 */
function LookedAt({ diagnosis, children }: { diagnosis: Diagnosis; children?: preact.ComponentChildren }) {
  const { looked_at: checks, findings, seconds } = diagnosis;
  const missing = checks.filter((one) => one.missing);
  const looked = missing.length ? `${checks.length - missing.length} of ${checks.length}` : String(checks.length);
  const isGood = missing.length === 0 && !findings?.length;
  return (
    <p class={isGood ? "good" : "note"}>
      Doctor looked at {looked} things for {seconds.toFixed(1)} s: {findings?.length || "no"}{" "}
      {findings?.length === 1 ? "problem" : "problems"} found
      {missing.length > 0 && `. Not checked: ${missing.map((one) => `${one.what} (${one.missing})`).join("; ")}`}.{" "}
      {children}
    </p>
  );
}

/** Doctor's findings in one line each, for the summary. */
export function Findings({ state, change }: { state: State; change: Change }) {
  const missing = missingData("doctor", state);
  const canLook = !missing && !state.ended;
  const { value, problem } = useRequest(
    async () => (canLook ? api.doctor() : null),
    state.live ? SUMMARY_INTERVAL_MS : 0,
    [canLook, state.live],
  );
  if (missing) return <p class="note">{missing}</p>;
  if (!canLook) return <p class="note">The process has ended: doctor cannot look at it any more.</p>;
  if (!value)
    return problem ? (
      <p class="note">Doctor could not look at the process: {problem}.</p>
    ) : (
      <p>
        <Busy>Doctor looks at the process for two seconds</Busy>
      </p>
    );
  return (
    <>
      {(value.findings ?? []).map((one) => (
        <p key={one.id} class={`finding ${one.severity}`}>
          {one.title}: {one.figure}{" "}
          {findingView(one.id, state) && (
            <button class="link" onClick={() => change(findingView(one.id, state)!)}>
              show it
            </button>
          )}
        </p>
      ))}
      <LookedAt diagnosis={value}>
        {!!value.findings?.length && (
          <button class="link" onClick={() => change({ view: "doctor" })}>
            why, and what to change
          </button>
        )}
      </LookedAt>
    </>
  );
}

export function Doctor({ state, change }: { state: State; change: Change }) {
  const [round, setRound] = useState(0);
  const { value, problem } = useRequest(api.doctor, 0, [round]);
  return (
    <section>
      {state.live ? (
        <div class="bar">
          <button onClick={() => setRound(round + 1)}>check again</button> doctor takes two snapshots, two seconds apart
        </div>
      ) : (
        !state.report && <p class="note">State at doctor's last check.</p>
      )}
      <Problem text={problem} />
      {!value && !problem && (
        <p>
          <Busy>Doctor looks at the process for two seconds</Busy>
        </p>
      )}
      {value && <LookedAt diagnosis={value} />}
      {value?.findings?.map((one) => (
        <article key={one.id} class={`finding ${one.severity}`}>
          <h2>
            {one.title}: {one.figure}
          </h2>
          <p>{one.why}</p>
          <ul>
            {one.change.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
          {one.sites && one.sites.length > 0 && (
            <>
              <p>{one.places}:</p>
              <ol>
                {one.sites.map((site) => (
                  <li key={site.place}>
                    <button
                      class="link"
                      onClick={() =>
                        change({
                          ...findingView("samples-lost", state),
                          view: "callers",
                          function: functionAt(site.place),
                        })
                      }
                    >
                      {site.place}
                    </button>{" "}
                    <small>
                      {bytes(site.bytes)}, {Math.round(100 * site.share)} %{site.notes?.map((note) => `; ${note}`)}
                    </small>
                  </li>
                ))}
              </ol>
            </>
          )}
          {findingView(one.id, state) && <button onClick={() => change(findingView(one.id, state)!)}>show it</button>}
        </article>
      ))}
      {value && (
        <details>
          <summary>Checked values</summary>
          <table class="figures">
            <tbody>
              {value.looked_at.map((one) => (
                <tr key={one.id}>
                  <td class="name">{one.what}</td>
                  <td class="name">{one.missing || one.seen}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      )}
    </section>
  );
}
