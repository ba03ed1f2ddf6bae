// The page: a bar of views, and the view.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { render } from "preact";
import { type State, api } from "./api.ts";
import { moment } from "./model/format.ts";
import { type Change, type Shown, useAnswer, useShown } from "./state.ts";
import { Growth } from "./views/growth.tsx";
import { HeapMap } from "./views/heapmap.tsx";
import { Lifetimes } from "./views/lifetimes.tsx";
import { Overview, usePoints } from "./views/overview.tsx";
import { Doctor, Kernel, Settings, Sizes } from "./views/process.tsx";
import { PROFILE_VIEWS, Profile } from "./views/profile.tsx";
import { Window } from "./views/window.tsx";

// Those that ask a process.
const PROCESS_VIEWS: Record<string, string> = { map: "Heap map", sizes: "Size classes", lifetimes: "Lifetimes", kernel: "Kernel", doctor: "Doctor", settings: "Settings" };

// Those that show a time, which may be chosen where it is kept in a folder.
const OF_A_TIME = new Set(["overview", "growth", ...Object.keys(PROFILE_VIEWS)]);

function Bar({ state, shown, change }: { state: State; shown: Shown; change: Change }) {
  const views: [string, string][] = [
    ["overview", "Overview"],
    ...Object.entries(PROFILE_VIEWS).map(([id, [name]]): [string, string] => [id, name]),
    ["growth", "Growth"],
    // The map is not kept over time: it is the process's as it is now, or was when the report was made.
    ...(!state.process ? [] : Object.entries(PROCESS_VIEWS).filter(([id]) => id !== "map" || state.live || state.ended || state.report)),
  ];
  return (
    <header>
      <h1>{state.title}</h1>
      <span class={state.live && !state.silent ? "alive" : "ended"} title={state.ended}>
        {state.report ? `report of ${moment(state.report)}` : state.silent ? "silent" : state.live ? "live" : !state.process ? "saved" : state.stored && !state.ended ? "stored" : "ended"}
      </span>
      <nav aria-label="Views">
        {views.map(([id, name]) => (
          <button key={id} aria-current={shown.view === id ? "page" : undefined} onClick={() => change({ view: id })}>{name}</button>
        ))}
      </nav>
    </header>
  );
}

function Page() {
  const [shown, change] = useShown();
  const latest = usePoints();
  const bounded = shown.from > 0 || shown.until > 0;
  const { value: within } = useAnswer(() => (bounded ? api.between(shown.from, shown.until) : Promise.resolve(null)), 0, [shown.from, shown.until]);
  const points = (bounded && within) || latest;
  const { value: state, problem } = useAnswer(api.state, 2000, []);
  if (!state) return <main><p role="status">{problem || "…"}</p></main>;
  document.title = `${state.title} – seemalloc`;
  let view;
  if (shown.view in PROFILE_VIEWS) view = <Profile state={state} shown={shown} change={change} />;
  else if (shown.view === "growth") view = <Growth shown={shown} change={change} />;
  else if (shown.view === "sizes") view = <Sizes />;
  else if (shown.view === "map") view = <HeapMap shown={shown} change={change} />;
  else if (shown.view === "lifetimes") view = <Lifetimes state={state} change={change} />;
  else if (shown.view === "kernel") view = <Kernel live={state.live} />;
  else if (shown.view === "doctor") view = <Doctor state={state} go={(to) => change({ view: to })} />;
  else if (shown.view === "settings") view = <Settings state={state} />;
  else view = <Overview points={points} state={state} shown={shown} change={change} />;
  return (
    <>
      <Bar state={state} shown={shown} change={change} />
      <main>
        {problem && <p class="problem" role="alert">{problem}</p>}
        {state.ended && <p class="problem" role="status">The process does not answer any more: {state.ended}. What was seen before is still here.</p>}
        {state.silent && <p class="problem" role="status">The process does not answer just now: {state.silent}. It is asked again and again.</p>}
        {state.stored?.problem && <p class="problem" role="alert">What is seen is not kept just now: {state.stored.problem}.</p>}
        {state.stored && OF_A_TIME.has(shown.view) && <Window points={latest} shown={shown} change={change} />}
        {view}
      </main>
    </>
  );
}

render(<Page />, document.getElementById("page")!);
