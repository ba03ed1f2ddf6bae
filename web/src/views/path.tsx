// A stack in one line: the allocating function and its callers, without the innermost intermediate functions. Each name
// links to its callers.
import { TOLD } from "../model/growers.ts";
import type { Change } from "../state.ts";

export function Path({ stack, inner = 0, change, most = TOLD }: { stack: string[]; inner?: number; change: Change; most?: number }) {
  const shown = stack.slice(inner);
  return (
    <span title={stack.join("\n")}>
      {shown.slice(0, most).map((name, i) => (
        <span key={i}>
          {i > 0 && <small> ← </small>}
          <button class="link" onClick={() => change({ view: "callers", function: name })}>{name}</button>
        </span>
      ))}
      {shown.length > most && <small> ← …</small>}
    </span>
  );
}
