// The message about set filters that a view ignores.
import { isReport } from "../api.ts";
import { ignoredFilters } from "../model/ignoredfilters.ts";
import type { ViewState } from "../state.ts";

export function IgnoredFilters({ shown }: { shown: ViewState }) {
  const ignored = ignoredFilters(shown.view, shown, isReport);
  return (
    ignored && (
      <p class="note" role="status">
        This view ignores{" "}
        {ignored.filters.map((name, i) => (
          <>
            {i > 0 && ", "}
            <em key={name}>{name}</em>
          </>
        ))}
        : {ignored.reason}.
      </p>
    )
  );
}
