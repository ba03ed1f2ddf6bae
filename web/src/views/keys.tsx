// The keys of the page, and the list of them. Keys in input fields are left alone.
import { useEffect } from "preact/hooks";
import type { Change } from "../state.ts";
import { Dialog } from "./dialog.tsx";

const KEYS: [string, string][] = [
  ["Ctrl-K or :", "views and actions by name"],
  ["1 … 5", "a group of views"],
  ["/", "the search, or the first filter"],
  ["?", "this list"],
  ["← →", "in the bar: the next view"],
  ["↑ ↓, Enter", "in a list: the next row; opens it"],
  ["↑ ↓ ← →, Enter, Esc", "in the flame graph and the graph: the next function; zooms in or selects; shows all"],
  ["↑ ↓ ← →, Home, End", "in the tree: the next branch; opens and closes it"],
  ["← →, Page Up, Page Down", "in the time line: moves the selected moment"],
  ["↑ ↓ ← →", "in the heap map: the next region or span"],
];

export function KeyList({ close }: { close: () => void }) {
  return (
    <Dialog label="Keys" close={close}>
      {(dismiss) => (
        <>
          <h2>Keys</h2>
          <dl class="keylist">
            {KEYS.map(([key, what]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
          <button onClick={dismiss}>close</button>
        </>
      )}
    </Dialog>
  );
}

/** Moves the focus to the search, or to the first filter. Without either, nothing happens. */
export function focusSearch(change: Change): void {
  const focus = (selector: string) => {
    const input = document.querySelector<HTMLInputElement>(selector);
    input?.focus();
    return !!input;
  };
  if (focus(".filters .line input") || !document.querySelector(".filters [aria-expanded]")) return;
  change({ filters: true });
  requestAnimationFrame(() => focus(".filters .controls input:not([type=checkbox])"));
}

/** Moves the focus to the link of the next row. Returns false if the focus is not in a list. */
function moveInList(from: Element, step: number): boolean {
  const row = from.closest("main tbody tr, main ol > li");
  if (!row) return false;
  const links = [...document.querySelectorAll("main tbody tr, main ol > li")].flatMap(
    (one) => one.querySelector<HTMLElement>(".link") ?? [],
  );
  links[links.findIndex((link) => row.contains(link)) + step]?.focus();
  return true;
}

function isTyping(target: Element): boolean {
  return target.matches("input:not([type=checkbox]), select, textarea");
}

interface Actions {
  showPalette: () => void;
  showKeys: () => void;
  change: Change;
}

export function useKeys({ showPalette, showKeys, change }: Actions): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const { key, target } = event;
      if (event.defaultPrevented || event.altKey || !(target instanceof Element)) return;
      if (isTyping(target) || document.querySelector("dialog[open]")) return;
      const isControl = event.ctrlKey || event.metaKey;
      const groups = document.querySelectorAll<HTMLElement>("nav.groups button");
      if (isControl ? key.toLowerCase() === "k" : key === ":") showPalette();
      else if (isControl) return;
      else if (key === "?") showKeys();
      else if (key === "/") focusSearch(change);
      else if (/^[1-9]$/.test(key) && groups[Number(key) - 1]) groups[Number(key) - 1]!.click();
      else if (key !== "ArrowDown" && key !== "ArrowUp") return;
      else if (!moveInList(target, key === "ArrowDown" ? 1 : -1)) return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [change]);
}
