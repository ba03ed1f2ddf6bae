// The bar at the top: the groups of views, and below them the views of the selected group.
import { useEffect, useRef } from "preact/hooks";
import type { State } from "../answers.ts";
import { moment } from "../model/format.ts";
import { groupOf, knownView, missingData, VIEW_GROUPS, type ViewGroup } from "../model/views.ts";
import type { Change, ViewState } from "../state.ts";

function statusText(state: State): string {
  if (state.report) return `report of ${moment(state.report)}`;
  if (state.silent) return "silent";
  if (state.live) return "live";
  if (!state.process) return "saved";
  return state.stored && !state.ended ? "stored" : "ended";
}

const STEPS: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1 };

/** The arrow keys move between the buttons of a row. */
function onKeyDown(event: KeyboardEvent): void {
  const step = STEPS[event.key];
  if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
  const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll("button")];
  buttons[buttons.indexOf(event.target as HTMLButtonElement) + step]?.focus();
  event.preventDefault();
}

interface Props {
  state: State;
  shown: ViewState;
  change: Change;
  showKeys: () => void;
}

export function Bar({ state, shown, change, showKeys }: Props) {
  const header = useRef<HTMLElement>(null);
  // What sticks below the header needs its height, which depends on the title and the width.
  useEffect(() => {
    const observer = new ResizeObserver(() =>
      document.documentElement.style.setProperty("--header", `${header.current!.offsetHeight}px`),
    );
    observer.observe(header.current!);
    return () => observer.disconnect();
  }, []);
  const view = knownView(shown.view);
  const selected = groupOf(view);
  // A group opens at the view that was last selected in it.
  const lastViews = useRef(new Map<ViewGroup, string>());
  lastViews.current.set(selected, view);
  return (
    <header ref={header}>
      <h1>{state.title}</h1>
      <span class={state.live && !state.silent ? "alive" : "ended"} title={state.ended}>
        {statusText(state)}
      </span>
      <nav aria-label="Groups" class="groups" onKeyDown={onKeyDown}>
        {VIEW_GROUPS.map((group) => (
          <button
            key={group.name}
            title={group.question}
            aria-current={group === selected ? "true" : undefined}
            onClick={() => change({ view: lastViews.current.get(group) ?? Object.keys(group.views)[0]! })}
          >
            {group.name}
          </button>
        ))}
      </nav>
      <button class="keys" onClick={showKeys}>
        ? keys
      </button>
      <nav aria-label="Views" class="views" onKeyDown={onKeyDown}>
        {Object.entries(selected.views).map(([id, name]) => (
          <button
            key={id}
            class={missingData(id, state) && "missing"}
            title={missingData(id, state) || undefined}
            aria-current={id === view ? "page" : undefined}
            onClick={() => change({ view: id })}
          >
            {name}
          </button>
        ))}
      </nav>
    </header>
  );
}
