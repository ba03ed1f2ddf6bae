// What the views of a profile have in common: which one, compared with which, and what of it.
import { useMemo, useState } from "preact/hooks";
import { type Moment, type Stacks, type State, api } from "../api.ts";
import { amount, bytes, clock, plusMinus, together } from "../model/format.ts";
import { JOINT, freed } from "../model/deaths.ts";
import { isPattern, isWhole, lines, total } from "../model/stacks.ts";
import { asked } from "../model/rows.ts";
import { type Change, type Shown, useAnswer } from "../state.ts";
import { Callers } from "./callers.tsx";
import { Changes } from "./changes.tsx";
import { Unknown } from "./deaths.tsx";
import { Flame } from "./flame.tsx";
import { Functions } from "./functions.tsx";
import { Graph } from "./graph.tsx";
import { PprofLink } from "./pprof.tsx";
import { RowFilters } from "./rows.tsx";
import { Source } from "./source.tsx";
import { Tree } from "./tree.tsx";

export const PROFILE_VIEWS: Record<string, [string, typeof Flame]> = {
  flame: ["Flame graph", Flame],
  functions: ["Functions", Functions],
  graph: ["Graph", Graph],
  callers: ["Callers", Callers],
  tree: ["Tree", Tree],
  source: ["Source", Source],
  changes: ["Changes", Changes],
};

const FORMATS = ["proto", "speedscope", "collapsed", "dhat", "csv", "json"];

function label(moment: Moment): string {
  const file = moment.name !== undefined;
  const when = [moment.name, moment.t > 0 ? clock(moment.t) : "at an unknown time"].filter(Boolean).join(", ");
  return `${when}, ${bytes(moment.inuse)} in use${moment.asked && !file ? " (kept)" : ""}`;
}

/** What a value counts, behind its unit: "1.00 MiB in use", "7 objects in use". */
function without(what: string, unit: string): string {
  return unit === "bytes" ? what.replace(/^bytes /, "") : what;
}

/** Where what is shown is saved: its rows, or what has changed in them. */
function download(shown: Shown, format: string): string {
  const query = new URLSearchParams({ kind: shown.kind, at: shown.kind === "heap" ? String(shown.at) : "0", format });
  if (shown.kind === "heap" && shown.base >= 0) query.set("base", String(shown.base));
  if (shown.type) query.set("type", shown.type);
  return `api/download?${query}${asked(shown)}`;
}

function Choice({ state, stacks, moments, shown, change }: { state: State; stacks: Stacks | null; moments: Moment[]; shown: Shown; change: Change }) {
  const text = (name: "focus" | "ignore" | "hide" | "search", help: string) => (
    <label title={help}>
      {name} <input value={shown[name]} aria-invalid={!isPattern(shown[name])} size={14} onInput={(event) => change({ [name]: event.currentTarget.value })} />
    </label>
  );
  const modules = useMemo(() => [...new Set((stacks?.frames ?? []).map((frame) => frame.m ?? ""))].filter(Boolean).sort(), [stacks]);
  // One that is chosen and of another time than is listed.
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
  const isKept = shown.kind === "heap"; // other kinds are taken now
  return (
    <div class="bar choice">
      {(state.kinds?.length ?? 0) > 1 && (
        <label>profile <select value={shown.kind} onChange={(event) => change({ kind: event.currentTarget.value, type: "", base: -1, at: 0, labels: "", thread: "", seconds: 0 })}>
          {state.kinds!.map((kind) => <option key={kind.name} value={kind.name} title={kind.what}>{kind.name}</option>)}
        </select></label>
      )}
      <label>shows <select value={shown.type || stacks?.types[stacks.default]?.name} onChange={(event) => change({ type: event.currentTarget.value })}>
        {stacks?.types.map((type) => <option key={type.name} value={type.name}>{type.what}</option>)}
      </select></label>
      {isKept && <label>at <select value={shown.at} onChange={(event) => change({ at: Number(event.currentTarget.value) })}>
        <option value={0}>{state.live ? "now (follows)" : "the last one"}</option>
        {beside(shown.at)}
        {[...moments].reverse().map((moment) => <option key={moment.id} value={moment.id}>{label(moment)}</option>)}
      </select></label>}
      {isKept && <label>compared with <select value={shown.base} onChange={(event) => change({ base: Number(event.currentTarget.value) })}>
        <option value={-1}>nothing</option>
        {beside(shown.base)}
        {moments.map((moment) => <option key={moment.id} value={moment.id}>{label(moment)}</option>)}
      </select></label>}
      {isKept && state.live && <button onClick={keep} title="Keeps a profile of now, and shows what changes from here on">compare from now on</button>}
      {refused && <span class="problem" role="alert">{refused}</span>}
      {text("focus", "Only stacks with a function that matches this regular expression")}
      {text("ignore", "No stacks with a function that matches")}
      {text("hide", "Takes matching functions out of the stacks")}
      <label>module <select value={shown.module} onChange={(event) => change({ module: event.currentTarget.value })}>
        <option value="">all</option>
        {modules.map((name) => <option key={name}>{name}</option>)}
      </select></label>
      <RowFilters state={state} stacks={stacks} shown={shown} change={change} />
      {text("search", "Marks functions that match")}
      {!state.report && <label>save as <select value="" onChange={(event) => {
        const format = event.currentTarget.value;
        location.href = format === "report" ? "api/report" : download(shown, format);
        event.currentTarget.value = "";
      }}><option value="">…</option>{FORMATS.map((name) => <option key={name}>{name}</option>)}<option value="report">report (all of this, to open without seemalloc)</option></select></label>}
      {!!state.report && <span class="note" title="The live page has them: seemalloc web PID, or seemalloc web FILE of saved profiles">no disassembly, no other formats in a report</span>}
      {!state.report && <PprofLink shown={shown} type={shown.type || stacks?.types[stacks.default]?.name || ""} />}
    </div>
  );
}

export function Profile({ state, shown, change }: { state: State; shown: Shown; change: Change }) {
  const isKept = shown.kind === "heap";
  const [at, base] = isKept ? [shown.at, shown.base] : [0, -1];
  const rows = asked(shown);
  const follows = state.live && at === 0;
  const moments = useAnswer(() => api.moments(shown.from, shown.until), state.live ? 5000 : 0, [state.live, shown.from, shown.until]);
  const { value: stacks, problem } = useAnswer(() => api.stacks(shown.kind, at, base >= 0 ? base : undefined, rows),
    follows ? 5000 : 0, [shown.kind, at, base, rows, follows]);
  const type = Math.max(0, stacks ? (shown.type ? stacks.types.findIndex((one) => one.name === shown.type) : stacks.default) : 0);
  const all = useMemo(() => (stacks ? lines(stacks, type, shown) : []), [stacks, type, shown.focus, shown.ignore, shown.hide, shown.module]);
  const View = PROFILE_VIEWS[shown.view]![1];
  const sum = total(all);
  const unit = stacks?.types[type]?.unit ?? "bytes";
  // That of the whole: of a part nobody knows it here.
  const errorOf = (errors: (number | null)[] | undefined) => (errors && isWhole(shown) ? errors[type]! : 0);
  const error = errorOf(stacks?.errors);
  const changeError = together(error, errorOf(stacks?.base_errors));
  return (
    <>
      <Choice state={state} stacks={stacks} moments={moments.value ?? []} shown={shown} change={change} />
      {problem && <p class="problem" role="alert">{problem}</p>}
      {stacks && (
        <>
          <p class="sum">
            <strong>{amount(sum.value, unit)}</strong> {stacks.types[type] && without(stacks.types[type]!.what, unit)}
            {plusMinus(error, unit, " (standard error)")}
            {stacks.base && `, ${amount(sum.value - sum.base, unit, true)}${plusMinus(changeError, unit)} since then`}{stacks.t > 0 && `, at ${clock(stacks.t)}`}
          </p>
          {shown.kind === "deaths" && (
            <>
              <p class="note">Nearer to the root: who allocated blocks that have been freed. Beneath <em>{JOINT}</em>: who freed them.</p>
              <Unknown freed={freed(stacks, all)} state={state} />
            </>
          )}
          <View stacks={stacks} all={all} unit={unit} shown={shown} change={change} />
          <details class="note"><summary>What this profile says of itself</summary><ul>{(stacks.comments ?? []).map((text) => <li key={text}>{text}</li>)}</ul></details>
        </>
      )}
    </>
  );
}
