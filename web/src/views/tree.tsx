// The call tree as an expandable list, the largest branches first. The open branches are stored in the address.
import { useMemo } from "preact/hooks";
import { changed, parse, sign } from "../model/branches.ts";
import { amount, percent } from "../model/format.ts";
import { type Node, tree } from "../model/stacks.ts";
import type { ViewProps } from "../viewprops.ts";
import { ShapeOfTree } from "./shape.tsx";

/** The common properties of all branches. */
interface Trunk {
  whole: number;
  unit: string;
  compares: boolean;
  known: Map<string, boolean>; // opened and closed
  set: (branch: string, open: boolean, usual: boolean) => void;
}

function Branch({ node, parent, trunk, usual }: { node: Node; parent: string; trunk: Trunk; usual: boolean }) {
  const { whole, unit, compares } = trunk;
  const branch = useMemo(() => sign(parent, node.name), [parent, node.name]);
  const isOpen = trunk.known.get(branch) ?? usual;
  const size = (one: Node) => Math.abs(compares ? one.total - one.base : one.total);
  const children = useMemo(() => [...node.children].sort((a, b) => size(b) - size(a)), [node]);
  return (
    <li role="treeitem" aria-expanded={children.length ? isOpen : undefined}>
      <span class={children.length ? "branch link" : "branch"} tabIndex={node.parent ? -1 : 0} onClick={() => children.length && trunk.set(branch, !isOpen, usual)}>
        <span class="sign" aria-hidden="true">{children.length === 0 ? "·" : isOpen ? "▾" : "▸"}</span>
        <span class="amount">{amount(node.total, unit)}</span>
        {compares && <span class="amount">{amount(node.total - node.base, unit, true)}</span>}
        <span class="share">{percent(node.total, whole)}</span> {node.name}
      </span>
      {isOpen && children.length > 0 && (
        <ul role="group">
          {children.map((child) => (
            // An only child opens together with its parent.
            <Branch key={child.name} node={child} parent={branch} trunk={trunk} usual={children.length === 1} />
          ))}
        </ul>
      )}
    </li>
  );
}

/**
 * The usual keys of a tree: up and down move between visible branches, right opens or descends, left closes or
 * ascends, Enter acts like a click.
 */
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

export function Tree({ about: { unit, compares }, figures, shown, change }: ViewProps<"tree">) {
  const root = useMemo(() => tree(figures.tree), [figures]);
  const known = useMemo(() => parse(shown.open), [shown.open]);
  const trunk: Trunk = {
    whole: root.weight, unit, compares, known,
    set: (branch, open, usual) => change({ open: changed(shown.open, branch, open, usual) }),
  };
  return (
    <section>
      <div class="bar">
        <ShapeOfTree shown={shown} change={change} />
      </div>
      <ul class="tree" role="tree" aria-label="Tree of calls" onKeyDown={walk}>
        <Branch node={root} parent="" trunk={trunk} usual />
      </ul>
    </section>
  );
}
