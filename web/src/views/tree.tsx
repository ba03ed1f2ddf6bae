// The call tree as an expandable list, the largest branches first. The open branches are stored in the address.
import { useMemo } from "preact/hooks";
import { branchId, parseBranches, toggleBranch } from "../model/branches.ts";
import { amount, count, percent } from "../model/format.ts";
import { callTree, type Node } from "../model/stacks.ts";
import type { ViewProps } from "../viewprops.ts";
import { TreeControls } from "./treecontrols.tsx";

/** The common properties of all branches. */
interface TreeContext {
  whole: number;
  unit: string;
  isComparison: boolean;
  hasBlocks: boolean;
  known: Map<string, boolean>; // opened and closed
  set: (branch: string, open: boolean, defaultOpen: boolean) => void;
}

function Branch({
  node,
  parent,
  context,
  defaultOpen,
}: {
  node: Node;
  parent: string;
  context: TreeContext;
  defaultOpen: boolean;
}) {
  const { whole, unit, isComparison, hasBlocks } = context;
  const branch = useMemo(() => branchId(parent, node.name), [parent, node.name]);
  const isOpen = context.known.get(branch) ?? defaultOpen;
  const size = (one: Node) => Math.abs(isComparison ? one.total - one.base : one.total);
  const children = useMemo(() => [...node.children].sort((a, b) => size(b) - size(a)), [node]);
  return (
    <li role="treeitem" aria-expanded={children.length ? isOpen : undefined}>
      <span
        class={children.length ? "branch link" : "branch"}
        tabIndex={node.parent ? -1 : 0}
        onClick={() => children.length && context.set(branch, !isOpen, defaultOpen)}
      >
        <span class="amount">{amount(node.total, unit)}</span>
        {isComparison && <span class="amount">{amount(node.total - node.base, unit, true)}</span>}
        <span class="share">{percent(node.total, whole)}</span>
        {hasBlocks && <span class="blocks">{count(node.blocks)}</span>}
        <span class="sign" aria-hidden="true" style={{ "--depth": node.depth }}>
          {children.length === 0 ? "·" : isOpen ? "▾" : "▸"}
        </span>
        <span class="name">{node.name}</span>
      </span>
      {isOpen && children.length > 0 && (
        <ul role="group">
          {children.map((child) => (
            // An only child opens together with its parent.
            <Branch
              key={child.name}
              node={child}
              parent={branch}
              context={context}
              defaultOpen={children.length === 1}
            />
          ))}
        </ul>
      )}
    </li>
  );
}

/**
 * The standard keys of a tree: up and down move between visible branches, right opens or descends, left closes or
 * ascends, Enter acts like a click.
 */
function onKeyDown(event: KeyboardEvent): void {
  const list = event.currentTarget as HTMLElement;
  const here = event.target as HTMLElement;
  const all = [...list.querySelectorAll<HTMLElement>(".branch")];
  const position = all.indexOf(here);
  const item = here.parentElement!;
  const open = item.getAttribute("aria-expanded");
  let next: HTMLElement | null | undefined;
  if (event.key === "ArrowDown") next = all[position + 1];
  else if (event.key === "ArrowUp") next = all[position - 1];
  else if (event.key === "Home") next = all[0];
  else if (event.key === "End") next = all[all.length - 1];
  else if (event.key === "ArrowRight" && open === "true") next = all[position + 1];
  else if (event.key === "ArrowLeft" && open !== "true")
    next = item.parentElement!.closest("li")?.querySelector<HTMLElement>(".branch");
  else if (
    event.key === "Enter" ||
    event.key === " " ||
    (event.key === "ArrowRight" && open === "false") ||
    event.key === "ArrowLeft"
  )
    here.click();
  else return;
  next?.focus();
  event.preventDefault();
}

export function Tree({ about, data, shown, change }: ViewProps<"tree">) {
  const { unit, isComparison } = about;
  const root = useMemo(() => callTree(data.tree), [data]);
  const known = useMemo(() => parseBranches(shown.open), [shown.open]);
  const context: TreeContext = {
    whole: root.weight,
    unit,
    isComparison,
    hasBlocks: data.hasBlocks,
    known,
    set: (branch, open, defaultOpen) => change({ open: toggleBranch(shown.open, branch, open, defaultOpen) }),
  };
  return (
    <section>
      <div class="bar">
        <TreeControls shown={shown} change={change} />
      </div>
      <p class="tree-heading" aria-hidden="true">
        <span class="amount">{about.types[about.type]?.unit ?? "value"}</span>
        {isComparison && <span class="amount">change</span>}
        <span class="share">share</span>
        {data.hasBlocks && <span class="blocks">blocks</span>}
        <span class="name">function</span>
      </p>
      <ul class="tree" role="tree" aria-label="Tree of calls" onKeyDown={onKeyDown}>
        <Branch node={root} parent="" context={context} defaultOpen />
      </ul>
    </section>
  );
}
