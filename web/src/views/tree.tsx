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
      <button class="link" disabled={children.length === 0} onClick={() => setOpen(!isOpen)}>
        <span class="sign" aria-hidden="true">{children.length === 0 ? "·" : isOpen ? "▾" : "▸"}</span>
        <span class="amount">{amount(node.total, unit)}</span>
        {compares && <span class="amount">{amount(node.total - node.base, unit, true)}</span>}
        <span class="share">{percent(node.total, whole)}</span> {node.name}
      </button>
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

export function Tree({ stacks, all, unit, shown, change }: ViewProps) {
  const root = useMemo(() => tree(stacks, all, shown), [stacks, all, shown.inverted, shown.folded]);
  return (
    <section>
      <div class="bar">
        <label><input type="checkbox" checked={shown.inverted} onChange={() => change({ inverted: !shown.inverted })} /> from the allocating function to its callers</label>
      </div>
      <ul class="tree" role="tree" aria-label="Tree of calls">
        <Branch node={root} whole={root.weight} unit={unit} compares={stacks.base !== undefined} open />
      </ul>
    </section>
  );
}
