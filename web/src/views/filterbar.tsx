// The filter bar: one line with what is set, which stays at the top of the window. The button opens all controls.
import { useRef } from "preact/hooks";
import { chipsOf, resetAll } from "../model/chips.ts";
import type { Change, ViewState } from "../state.ts";

interface Props {
  shown: ViewState;
  change: Change;
  isProfile?: boolean; // it is a view of a profile
  texts?: Record<string, string | undefined>; // better texts for chips, by name
  line?: preact.ComponentChildren; // stays visible when the bar is closed
  children?: preact.ComponentChildren; // the controls
}

export function FilterBar({ shown, change, isProfile = false, texts = {}, line, children }: Props) {
  const toggle = useRef<HTMLButtonElement>(null);
  const chips = chipsOf(shown, isProfile);
  const isOpen = !!children && shown.filters;
  if (!children && !line && chips.length === 0) return null;
  const remove = (reset: Partial<ViewState>) => {
    change(reset);
    toggle.current?.focus(); // the button that had the focus goes
  };
  return (
    <div class={isOpen ? "filters open" : "filters"} role="group" aria-label="Filter bar">
      <div class="line">
        {children && (
          <button ref={toggle} aria-expanded={isOpen} onClick={() => change({ filters: !shown.filters })}>
            {isOpen ? "▾" : "▸"} filters
          </button>
        )}
        {line}
        <span class="chips">
          {chips.map(({ name, text, reset }) => (
            <span key={`${name} ${text}`} class="chip">
              {name} <strong>{texts[name] ?? text}</strong>
              <button title="remove" onClick={() => remove(reset)}>
                <span class="unseen">remove {name}</span>
                <span aria-hidden="true">×</span>
              </button>
            </span>
          ))}
          {chips.length > 1 && <button onClick={() => remove(resetAll(chips))}>remove all</button>}
        </span>
      </div>
      {isOpen && <div class="bar controls">{children}</div>}
    </div>
  );
}
