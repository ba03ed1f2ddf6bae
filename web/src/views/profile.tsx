// The common part of all views of a profile: the selected profile, the comparison, and the filters.
import { useMemo, useState } from "preact/hooks";
import type { CPU, Moment, State } from "../answers.ts";
import { api } from "../api.ts";
import { FREED_BY_FRAME } from "../model/deaths.ts";
import { amount, bytes, clock, differenceError, plusMinus } from "../model/format.ts";
import { rowQuery } from "../model/rowfilters.ts";
import { patternError } from "../model/stacks.ts";
import { type Change, kindSettings, useRequest, type ViewState } from "../state.ts";
import { useViewData } from "../useviewdata.ts";
import { hasSearch, type ProfileInfo, type ViewData, viewRequest } from "../viewdata.ts";
import type { ViewProps } from "../viewprops.ts";
import { Busy } from "./busy.tsx";
import { Callers } from "./callers.tsx";
import { Changes } from "./changes.tsx";
import { CPU_KIND, CPUTime, NoCPUSamples } from "./cpu.tsx";
import { UnknownFreeingStacks } from "./deaths.tsx";
import { EmptyProfile, isEmpty } from "./emptyprofile.tsx";
import { FilterBar } from "./filterbar.tsx";
import { Flame } from "./flame.tsx";
import { Functions } from "./functions.tsx";
import { Graph } from "./graph.tsx";
import { PprofLink } from "./pprof.tsx";
import { RowFilters, UnsupportedFilters } from "./rowfilters.tsx";
import { Source } from "./source.tsx";
import { TimeLine } from "./timeline.tsx";
import { Tree } from "./tree.tsx";

type View<V extends keyof ViewData> = (props: ViewProps<V>) => preact.ComponentChild;

const VIEWS: { [V in Exclude<keyof ViewData, "overview">]: View<V> } = {
  flame: Flame,
  functions: Functions,
  graph: Graph,
  callers: Callers,
  tree: Tree,
  source: Source,
  changes: Changes,
};

export const PROFILE_VIEWS = VIEWS as Record<string, View<keyof ViewData>>;

const PATTERNS = ["focus", "ignore", "hide", "search"] as const; // the page applies them itself, so that stacks are filtered while typing

const FORMATS = ["proto", "speedscope", "collapsed", "dhat", "csv", "json"];

function momentLabel(moment: Moment): string {
  const file = moment.name !== undefined;
  const when = [moment.name, moment.t > 0 ? clock(moment.t) : "at an unknown time"].filter(Boolean).join(", ");
  return `${when}, ${bytes(moment.inuse)} in use${moment.asked && !file ? " (kept)" : ""}`;
}

/** The description of a value, behind its unit: "1.00 MiB in use", "7 objects in use". */
function typeText(what: string, unit: string): string {
  return unit === "bytes" ? what.replace(/^bytes /, "") : what;
}

/** The address for saving the displayed rows or their changes. */
function download(shown: ViewState, format: string): string {
  const query = new URLSearchParams({ kind: shown.kind, at: shown.kind === "heap" ? String(shown.at) : "0", format });
  if (shown.kind === "heap" && shown.base >= 0) query.set("base", String(shown.base));
  if (shown.type) query.set("type", shown.type);
  return `api/download?${query}${rowQuery(shown)}`;
}

interface ProfileControlsProps {
  state: State;
  about: ProfileInfo | null;
  moments: Moment[] | null;
  shown: ViewState;
  change: Change;
  problem: string;
}

function ProfileControls({ state, about, moments: listed, shown, change, problem }: ProfileControlsProps) {
  const moments = useMemo(() => (listed ?? []).map((moment) => ({ ...moment, label: momentLabel(moment) })), [listed]);
  const type = about?.types[about.type]?.name ?? "";
  const text = (name: (typeof PATTERNS)[number], help: string) => (
    <label title={help}>
      {name}{" "}
      <input
        value={shown[name]}
        aria-invalid={!!patternError(name, shown[name])}
        size={14}
        onInput={(event) => change({ [name]: event.currentTarget.value })}
      />
    </label>
  );
  // A selected moment outside the listed time.
  const unlistedOption = (id: number) =>
    id > 0 && !moments.some((moment) => moment.id === id) && <option value={id}>profile {id}</option>;
  const [error, setError] = useState("");
  const compareFromNow = async () => {
    try {
      change({ base: (await api.takeMoment()).id });
      setError("");
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure));
    }
  };
  const isHeap = shown.kind === "heap"; // other kinds are taken on request
  const momentText = (id: number) => moments.find((moment) => moment.id === id)?.label;
  const patternErrors = PATTERNS.map((name) => patternError(name, shown[name])).filter(Boolean);
  return (
    <>
      <FilterBar
        shown={shown}
        change={change}
        isProfile
        texts={{
          shows: about?.types.find((one) => one.name === shown.type)?.what,
          at: momentText(shown.at),
          "compared with": momentText(shown.base),
        }}
        line={hasSearch(shown.view) && text("search", "Marks or selects functions that match")}
      >
        {(state.kinds?.length ?? 0) > 1 && (
          <label>
            profile{" "}
            <select value={shown.kind} onChange={(event) => change(kindSettings(event.currentTarget.value))}>
              {state.kinds!.map((kind) => (
                <option key={kind.name} value={kind.name} title={kind.what}>
                  {kind.name}
                </option>
              ))}
            </select>
          </label>
        )}
        <label>
          shows{" "}
          <select value={shown.type || type} onChange={(event) => change({ type: event.currentTarget.value })}>
            {about?.types.map((type) => (
              <option key={type.name} value={type.name}>
                {type.what}
              </option>
            ))}
          </select>
        </label>
        {isHeap && (
          <label>
            at{" "}
            <select value={shown.at} onChange={(event) => change({ at: Number(event.currentTarget.value) })}>
              <option value={0}>{state.live ? "now (live)" : "the last one"}</option>
              {unlistedOption(shown.at)}
              {[...moments].reverse().map((moment) => (
                <option key={moment.id} value={moment.id}>
                  {moment.label}
                </option>
              ))}
            </select>
          </label>
        )}
        {isHeap && (
          <label>
            compared with{" "}
            <select value={shown.base} onChange={(event) => change({ base: Number(event.currentTarget.value) })}>
              <option value={-1}>nothing</option>
              {unlistedOption(shown.base)}
              {moments.map((moment) => (
                <option key={moment.id} value={moment.id}>
                  {moment.label}
                </option>
              ))}
            </select>
          </label>
        )}
        {isHeap && state.live && (
          <button onClick={compareFromNow} title="Stores a profile now, and shows the changes from now on">
            compare from now on
          </button>
        )}
        {error && (
          <span class="problem" role="alert">
            {error}
          </span>
        )}
        {text("focus", "Only stacks with a function that matches this regular expression")}
        {text("ignore", "No stacks with a function that matches")}
        {text("hide", "Removes matching functions from the stacks")}
        <label title="Shows stacks as they are, with the functions of libraries, wrappers of malloc and start-up. Otherwise memory is charged to the first function of the program.">
          <input
            type="checkbox"
            checked={shown.raw}
            onChange={(event) => change({ raw: event.currentTarget.checked })}
          />{" "}
          all frames
        </label>
        <label>
          module{" "}
          <select value={shown.module} onChange={(event) => change({ module: event.currentTarget.value })}>
            <option value="">all</option>
            {about?.modules.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <RowFilters state={state} labels={about?.labels} shown={shown} change={change} problem={problem} />
        {!state.report && (
          <label>
            save as{" "}
            <select
              value=""
              onChange={(event) => {
                const format = event.currentTarget.value;
                location.href = format === "report" ? "api/report" : download(shown, format);
                event.currentTarget.value = "";
              }}
            >
              <option value="">…</option>
              {FORMATS.map((name) => (
                <option key={name}>{name}</option>
              ))}
              <option value="report" title="This page in one file, which opens without seemalloc">
                report of this page
              </option>
            </select>
          </label>
        )}
        {!!state.report && (
          <span class="note" title="The live page has them: seemalloc web PID, or seemalloc web FILE of saved profiles">
            no disassembly, no other formats in a report
          </span>
        )}
        {!state.report && <PprofLink shown={shown} type={shown.type || type} />}
      </FilterBar>
      {patternErrors.map((text) => (
        <p key={text} class="problem" role="status">
          {text}. Until it is valid it is ignored.
        </p>
      ))}
      <UnsupportedFilters labels={about?.labels} shown={shown} />
    </>
  );
}

export function Profile({ state, shown, change }: { state: State; shown: ViewState; change: Change }) {
  const isHeap = shown.kind === "heap";
  const [at, base] = isHeap ? [shown.at, shown.base] : [0, -1];
  const rows = rowQuery(shown);
  const isLive = state.live && at === 0;
  const moments = useRequest(() => api.moments(shown.from, shown.until), state.live ? 5000 : 0, [
    state.live,
    shown.from,
    shown.until,
  ]);
  // A CPU profile is requested as soon as it has been started or stopped.
  const isCPU = shown.kind === CPU_KIND && state.process && !state.report;
  const isCPUQueried = isCPU && (state.live || !!state.ended);
  const [changes, setChanges] = useState(0); // started or stopped here
  const cpu = useRequest<CPU | null>(async () => (isCPUQueried ? api.cpu() : null), isCPUQueried ? 1000 : 0, [
    isCPUQueried,
    changes,
  ]);
  const runNumber = cpu.value ? 2 * cpu.value.rounds + Number(cpu.value.running) : 0;
  const request = viewRequest(shown, shown.view, {
    kind: shown.kind,
    at,
    ...(base >= 0 ? { base } : {}),
    rows,
    isLive,
    ...(runNumber ? { runNumber } : {}),
  });
  const { value: result, problem, isPending } = useViewData(request);
  const about = result?.about ?? null;
  // Each part is redrawn only if its data has changed, so that an answer for another part costs nothing.
  const controls = useMemo(
    () => (
      <ProfileControls
        state={state}
        about={about}
        moments={moments.value}
        shown={shown}
        change={change}
        problem={problem}
      />
    ),
    [state, about, moments.value, shown, change, problem],
  );
  const timeLine = useMemo(
    () => isHeap && <TimeLine moments={moments.value ?? []} shown={shown} change={change} />,
    [isHeap, moments.value, shown, change],
  );
  const view = useMemo(() => {
    if (result?.view !== shown.view || isEmpty(result.about)) return null;
    const View = PROFILE_VIEWS[result.view]!;
    return <View about={result.about} data={result.data} shown={shown} change={change} />;
  }, [result, shown, change]);
  return (
    <>
      {controls}
      {isCPU && <CPUTime state={state} cpu={cpu.value} changed={() => setChanges(changes + 1)} />}
      {timeLine}
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {!about && !problem && (
        <p>
          <Busy>Reads the profile</Busy>
        </p>
      )}
      {about && (
        <>
          <Total about={about} isPending={isPending} />
          {about.freed && (
            <>
              <p class="note">
                Towards the root: the stacks that allocated the freed blocks. Below <em>{FREED_BY_FRAME}</em>: the
                stacks that freed them.
              </p>
              <UnknownFreeingStacks freed={about.freed} state={state} />
            </>
          )}
          {isCPU && about.stacks === 0 ? (
            <NoCPUSamples state={state} running={!!cpu.value?.running} />
          ) : (
            isEmpty(about) && <EmptyProfile about={about} state={state} shown={shown} change={change} />
          )}
          {view}
          <details class="note">
            <summary>Profile details</summary>
            <ul>
              {about.comments.map((text) => (
                <li key={text}>{text}</li>
              ))}
            </ul>
          </details>
        </>
      )}
    </>
  );
}

function Total({ about, isPending }: { about: ProfileInfo; isPending: boolean }) {
  const { types, type, unit, t, isComparison, error, baseError, total } = about;
  const changeError = about.changeError === undefined ? differenceError(error, baseError) : about.changeError;
  return (
    <p class="total">
      <strong>{amount(total.value, unit)}</strong> {types[type] && typeText(types[type]!.what, unit)}
      {plusMinus(error, unit, " (standard error)")}
      {isComparison && `, ${amount(total.value - total.base, unit, true)}${plusMinus(changeError, unit)} since then`}
      {t > 0 && `, at ${clock(t)}`} {isPending && <Busy>Computes the new figures</Busy>}
    </p>
  );
}
