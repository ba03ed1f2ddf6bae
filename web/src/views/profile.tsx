// The common part of all views of a profile: the selected profile, the comparison, and the filters.
import { useMemo, useState } from "preact/hooks";
import type { CPU, Moment, State } from "../answers.ts";
import { api } from "../api.ts";
import { type About, type Figures, questionOf } from "../look.ts";
import { useLook } from "../looks.ts";
import { amount, bytes, clock, plusMinus, together } from "../model/format.ts";
import { JOINT } from "../model/deaths.ts";
import { unreadable } from "../model/stacks.ts";
import { asked } from "../model/rows.ts";
import { type Change, type Shown, useAnswer } from "../state.ts";
import type { ViewProps } from "../viewprops.ts";
import { Callers } from "./callers.tsx";
import { Changes } from "./changes.tsx";
import { CPUTime, CPU_KIND, NoCPU } from "./cpu.tsx";
import { Unknown } from "./deaths.tsx";
import { Flame } from "./flame.tsx";
import { Functions } from "./functions.tsx";
import { Graph } from "./graph.tsx";
import { PprofLink } from "./pprof.tsx";
import { RowFilters } from "./rows.tsx";
import { Source } from "./source.tsx";
import { TimeLine } from "./timeline.tsx";
import { Tree } from "./tree.tsx";

type View<V extends keyof Figures> = (props: ViewProps<V>) => preact.ComponentChild;

const VIEWS: { [V in Exclude<keyof Figures, "overview">]: [string, View<V>] } = {
  flame: ["Flame graph", Flame],
  functions: ["Functions", Functions],
  graph: ["Graph", Graph],
  callers: ["Callers", Callers],
  tree: ["Tree", Tree],
  source: ["Source", Source],
  changes: ["Changes", Changes],
};

export const PROFILE_VIEWS = VIEWS as Record<string, [string, View<keyof Figures>]>;

const PATTERNS = ["focus", "ignore", "hide", "search"] as const; // the page applies them itself, so that stacks are filtered while typing

const FORMATS = ["proto", "speedscope", "collapsed", "dhat", "csv", "json"];

function label(moment: Moment): string {
  const file = moment.name !== undefined;
  const when = [moment.name, moment.t > 0 ? clock(moment.t) : "at an unknown time"].filter(Boolean).join(", ");
  return `${when}, ${bytes(moment.inuse)} in use${moment.asked && !file ? " (kept)" : ""}`;
}

/** The description of a value, behind its unit: "1.00 MiB in use", "7 objects in use". */
function without(what: string, unit: string): string {
  return unit === "bytes" ? what.replace(/^bytes /, "") : what;
}

/** The address for saving the displayed rows or their changes. */
function download(shown: Shown, format: string): string {
  const query = new URLSearchParams({ kind: shown.kind, at: shown.kind === "heap" ? String(shown.at) : "0", format });
  if (shown.kind === "heap" && shown.base >= 0) query.set("base", String(shown.base));
  if (shown.type) query.set("type", shown.type);
  return `api/download?${query}${asked(shown)}`;
}

interface ChoiceProps {
  state: State;
  about: About | null;
  moments: Moment[] | null;
  shown: Shown;
  change: Change;
  problem: string;
}

function Choice({ state, about, moments: listed, shown, change, problem }: ChoiceProps) {
  const moments = useMemo(() => (listed ?? []).map((moment) => ({ ...moment, label: label(moment) })), [listed]);
  const type = about?.types[about.type]?.name ?? "";
  const text = (name: (typeof PATTERNS)[number], help: string) => (
    <label title={help}>
      {name} <input value={shown[name]} aria-invalid={!!unreadable(name, shown[name])} size={14} onInput={(event) => change({ [name]: event.currentTarget.value })} />
    </label>
  );
  // A selected moment outside the listed time.
  const beside = (id: number) => id > 0 && !moments.some((moment) => moment.id === id) && <option value={id}>profile {id}</option>;
  const [refused, setRefused] = useState("");
  const keep = async () => {
    try {
      change({ base: (await api.takeMoment()).id });
      setRefused("");
    } catch (failure) {
      setRefused(failure instanceof Error ? failure.message : String(failure));
    }
  };
  const isKept = shown.kind === "heap"; // other kinds are taken on request
  // On a phone they would fill the screen.
  const [unfolded, setUnfolded] = useState(() => !matchMedia("(max-width: 700px)").matches);
  const chosen = [shown.focus, shown.ignore, shown.hide, shown.module, shown.sizeFrom, shown.sizeTo, shown.labels, shown.thread, shown.seconds, shown.search].filter(Boolean).length;
  const wrong = PATTERNS.map((name) => unreadable(name, shown[name])).filter(Boolean);
  return (
    <>
    <div class="bar choice">
      {(state.kinds?.length ?? 0) > 1 && (
        <label>profile <select value={shown.kind} onChange={(event) => change({ kind: event.currentTarget.value, type: "", base: -1, at: 0, labels: "", thread: "", seconds: 0 })}>
          {state.kinds!.map((kind) => <option key={kind.name} value={kind.name} title={kind.what}>{kind.name}</option>)}
        </select></label>
      )}
      <label>shows <select value={shown.type || type} onChange={(event) => change({ type: event.currentTarget.value })}>
        {about?.types.map((type) => <option key={type.name} value={type.name}>{type.what}</option>)}
      </select></label>
      {isKept && <label>at <select value={shown.at} onChange={(event) => change({ at: Number(event.currentTarget.value) })}>
        <option value={0}>{state.live ? "now (live)" : "the last one"}</option>
        {beside(shown.at)}
        {[...moments].reverse().map((moment) => <option key={moment.id} value={moment.id}>{moment.label}</option>)}
      </select></label>}
      {isKept && <label>compared with <select value={shown.base} onChange={(event) => change({ base: Number(event.currentTarget.value) })}>
        <option value={-1}>nothing</option>
        {beside(shown.base)}
        {moments.map((moment) => <option key={moment.id} value={moment.id}>{moment.label}</option>)}
      </select></label>}
      {isKept && state.live && <button onClick={keep} title="Stores a profile now, and shows the changes from now on">compare from now on</button>}
      {refused && <span class="problem" role="alert">{refused}</span>}
      <button class="fold" aria-expanded={unfolded} onClick={() => setUnfolded(!unfolded)}>filters and formats{chosen > 0 && ` (${chosen})`}</button>
      {unfolded && <>
      {text("focus", "Only stacks with a function that matches this regular expression")}
      {text("ignore", "No stacks with a function that matches")}
      {text("hide", "Removes matching functions from the stacks")}
      <label>module <select value={shown.module} onChange={(event) => change({ module: event.currentTarget.value })}>
        <option value="">all</option>
        {about?.modules.map((name) => <option key={name}>{name}</option>)}
      </select></label>
      <RowFilters state={state} labels={about?.labels} shown={shown} change={change} problem={problem} />
      {text("search", "Marks functions that match")}
      {!state.report && <label>save as <select value="" onChange={(event) => {
        const format = event.currentTarget.value;
        location.href = format === "report" ? "api/report" : download(shown, format);
        event.currentTarget.value = "";
      }}><option value="">…</option>{FORMATS.map((name) => <option key={name}>{name}</option>)}<option value="report" title="This page in one file, which opens without seemalloc">report of this page</option></select></label>}
      {!!state.report && <span class="note" title="The live page has them: seemalloc web PID, or seemalloc web FILE of saved profiles">no disassembly, no other formats in a report</span>}
      {!state.report && <PprofLink shown={shown} type={shown.type || type} />}
      </>}
    </div>
    {wrong.map((text) => <p key={text} class="problem" role="status">{text}. Until it is valid it is ignored.</p>)}
    </>
  );
}

export function Profile({ state, shown, change }: { state: State; shown: Shown; change: Change }) {
  const isKept = shown.kind === "heap";
  const [at, base] = isKept ? [shown.at, shown.base] : [0, -1];
  const rows = asked(shown);
  const follows = state.live && at === 0;
  const moments = useAnswer(() => api.moments(shown.from, shown.until), state.live ? 5000 : 0, [state.live, shown.from, shown.until]);
  // A CPU profile is requested as soon as it has been started or stopped.
  const isCPU = shown.kind === CPU_KIND && state.process && !state.report;
  const isAsked = isCPU && (state.live || !!state.ended);
  const [changes, setChanges] = useState(0); // started or stopped here
  const cpu = useAnswer<CPU | null>(async () => (isAsked ? api.cpu() : null), isAsked ? 1000 : 0, [isAsked, changes]);
  const round = cpu.value ? 2 * cpu.value.rounds + Number(cpu.value.running) : 0;
  const question = questionOf(shown, shown.view, { kind: shown.kind, at, ...(base >= 0 ? { base } : {}), rows, follows, ...(round ? { round } : {}) });
  const { value: look, problem } = useLook(question);
  const about = look?.about ?? null;
  // Each part is redrawn only if its data has changed, so that an answer for another part costs nothing.
  const choice = useMemo(() => <Choice state={state} about={about} moments={moments.value} shown={shown} change={change} problem={problem} />,
    [state, about, moments.value, shown, change, problem]);
  const line = useMemo(() => isKept && <TimeLine moments={moments.value ?? []} shown={shown} change={change} />, [isKept, moments.value, shown, change]);
  const view = useMemo(() => {
    if (look?.view !== shown.view) return null;
    const View = PROFILE_VIEWS[look.view]![1];
    return <View about={look.about} figures={look.figures} shown={shown} change={change} />;
  }, [look, shown, change]);
  return (
    <>
      {choice}
      {isCPU && <CPUTime state={state} cpu={cpu.value} changed={() => setChanges(changes + 1)} />}
      {line}
      {problem && <p class="problem" role="alert">{problem}</p>}
      {about && (
        <>
          <Sum about={about} />
          {about.freed && (
            <>
              <p class="note">Towards the root: the stacks that allocated the freed blocks. Below <em>{JOINT}</em>: the stacks that freed them.</p>
              <Unknown freed={about.freed} state={state} />
            </>
          )}
          {isCPU && about.stacks === 0 && <NoCPU state={state} running={!!cpu.value?.running} />}
          {view}
          <details class="note"><summary>Profile details</summary><ul>{about.comments.map((text) => <li key={text}>{text}</li>)}</ul></details>
        </>
      )}
    </>
  );
}

function Sum({ about: { types, type, unit, t, compares, error, baseError, sum } }: { about: About }) {
  return (
    <p class="sum">
      <strong>{amount(sum.value, unit)}</strong> {types[type] && without(types[type]!.what, unit)}
      {plusMinus(error, unit, " (standard error)")}
      {compares && `, ${amount(sum.value - sum.base, unit, true)}${plusMinus(together(error, baseError), unit)} since then`}{t > 0 && `, at ${clock(t)}`}
    </p>
  );
}
