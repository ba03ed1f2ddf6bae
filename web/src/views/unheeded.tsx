// The message about set filters that a view ignores.
import { isReport } from "../api.ts";
import { unheeded } from "../model/heeds.ts";
import type { Shown } from "../state.ts";

export function Unheeded({ shown }: { shown: Shown }) {
  const left = unheeded(shown.view, shown, isReport);
  return left && <p class="note" role="status">This view ignores {left.filters.map((name, i) => <>{i > 0 && ", "}<em key={name}>{name}</em></>)}: {left.why}.</p>;
}
