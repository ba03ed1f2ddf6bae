// The tree of calls as a list that opens: the largest first.
import { useMemo, useState } from "preact/hooks";
import { amount, percent } from "../model/format.ts";
import { type Node, tree } from "../model/stacks.ts";
import type { ViewProps } from "../state.ts";

function Branch({ node, whole, unit, compares, open }: { node: Node; whole: number; unit: string; compares: boolean; open: boolean }) {
  const [isOpen, setOpen] = useState(open);
  const size = (one: Node) => Math.abs(compares ? one.total - one.base : one.total);
  const children = useMemo(() => [...node.children].sort((a, b) => size(b) - size(a)), [node]);
  return (
    <li role="treeitem" aria-expanded={children.length ? isOpen : undefined}>
      <span class={children.length ? "branch link" : "branch"} tabIndex={node.parent ? -1 : 0} onClick={() => setOpen(!isOpen)}>
        <span class="sign" aria-hidden="true">{children.length === 0 ? "·" : isOpen ? "▾" : "▸"}</span>
        <span class="amount">{amount(node.total, unit)}</span>
        {compares && <span class="amount">{amount(node.total - node.base, unit, true)}</span>}
        <span class="share">{percent(node.total, whole)}</span> {node.name}
      </span>
      {isOpen && children.length > 0 && (
        <ul role="group">
          {children.map((child) => (
            // An only child is what one is looking for: it opens with its parent.
            <Branch key={child.name} node={child} whole={whole} unit={unit} compares={compares} open={children.length === 1} />
          ))}
        </ul>
      )}
    </li>
  );
}

/** Arrows as in any tree: up and down to what is shown, right opens or goes in, left closes or goes out; Enter does what a click does. */
function walk(event: KeyboardEvent): void {
  const list = event.currentTarget as HTMLElement;
  const here = event.target as HTMLElement;
  const all = [...list.querySelectorAll<HTMLElement>(".branch")];
  const place = all.indexOf(here);
  const item = here.parentElement!;
  const open = item.getAttribute("aria-expanded");
  let next: HTMLElement | null | undefined;
  if (event.key === "ArrowDown") next = all[place + 1];
  else if (event.key === "ArrowUp") next = all[place - 1];
  else if (event.key === "Home") next = all[0];
  else if (event.key === "End") next = all[all.length - 1];
  else if (event.key === "ArrowRight" && open === "true") next = all[place + 1];
  else if (event.key === "ArrowLeft" && open !== "true") next = item.parentElement!.closest("li")?.querySelector<HTMLElement>(".branch");
  else if (event.key === "Enter" || event.key === " " || (event.key === "ArrowRight" && open === "false") || event.key === "ArrowLeft") here.click();
  else return;
  next?.focus();
  event.preventDefault();
}

export function Tree({ stacks, all, unit, shown, change }: ViewProps) {
  const root = useMemo(() => tree(stacks, all, shown), [stacks, all, shown.inverted, shown.folded]);
  return (
    <section>
      <div class="bar">
        <label><input type="checkbox" checked={shown.inverted} onChange={() => change({ inverted: !shown.inverted })} /> from the allocating function to its callers</label>
      </div>
      <ul class="tree" role="tree" aria-label="Tree of calls" onKeyDown={walk}>
        <Branch node={root} whole={root.weight} unit={unit} compares={stacks.base !== undefined} open />
      </ul>
    </section>
  );
}
