// The command palette: views and actions by name.
import { useEffect, useRef, useState } from "preact/hooks";
import type { State } from "../answers.ts";
import { api } from "../api.ts";
import { chipsOf, resetAll } from "../model/chips.ts";
import { type Command, findCommands } from "../model/commands.ts";
import { VIEW_GROUPS } from "../model/views.ts";
import { type Change, kindSettings, type ViewState } from "../state.ts";
import { Dialog } from "./dialog.tsx";
import { focusSearch } from "./keys.tsx";
import { PROFILE_VIEWS } from "./profile.tsx";

/** All views, and what can be done at present. */
export function commandsOf(state: State, shown: ViewState, change: Change, showKeys: () => void): Command[] {
  const isProfile = Object.hasOwn(PROFILE_VIEWS, shown.view);
  const chips = chipsOf(shown, isProfile);
  const action = (name: string, run: Command["run"]): Command => ({ name, group: "Action", run });
  return [
    ...VIEW_GROUPS.flatMap((group) =>
      Object.entries(group.views).map(([view, name]) => ({ name, group: group.name, run: () => change({ view }) })),
    ),
    action("search or filter", () => focusSearch(change)),
    ...(chips.length > 0 ? [action("remove all filters", () => change(resetAll(chips)))] : []),
    ...(state.live
      ? [
          action("compare from now on", async () =>
            change({ view: "changes", ...kindSettings("heap"), base: (await api.takeMoment()).id }),
          ),
        ]
      : []),
    action(shown.raw ? "charge memory to the program" : "show all frames", () => change({ raw: !shown.raw })),
    ...(state.report
      ? []
      : [
          action("save a report of this page", () => {
            location.href = "api/report";
          }),
        ]),
    action("show all keys", showKeys),
    ...(state.kinds ?? []).map((kind) => ({
      name: kind.name,
      group: "Profile",
      help: kind.what,
      run: () => change({ view: isProfile ? shown.view : "flame", ...kindSettings(kind.name) }),
    })),
  ];
}

interface Props {
  commands: Command[];
  close: () => void;
  run: (command: Command) => void;
}

export function Palette({ commands, close, run }: Props) {
  const [text, setText] = useState("");
  const [position, setPosition] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const found = findCommands(commands, text);
  const selected = Math.min(position, found.length - 1);
  useEffect(() => list.current?.children[selected]?.scrollIntoView({ block: "nearest" }), [selected]);
  return (
    <Dialog label="Commands" close={close}>
      {(dismiss) => {
        // The dialog gives the focus back before the command may move it.
        const choose = (command: Command | undefined) => {
          if (!command) return;
          dismiss();
          run(command);
        };
        const onKeyDown = (event: KeyboardEvent) => {
          if (event.key === "ArrowDown") setPosition(Math.min(selected + 1, found.length - 1));
          else if (event.key === "ArrowUp") setPosition(Math.max(selected - 1, 0));
          else if (event.key === "Enter") choose(found[selected]);
          else return;
          event.preventDefault();
        };
        return (
          <>
            <input
              role="combobox"
              aria-label="View or action"
              aria-expanded="true"
              aria-controls="commands"
              aria-activedescendant={found[selected] && `command-${selected}`}
              placeholder="view or action"
              value={text}
              onInput={(event) => {
                setText(event.currentTarget.value);
                setPosition(0);
              }}
              onKeyDown={onKeyDown}
            />
            <ul id="commands" class="commands" role="listbox" aria-label="Views and actions" ref={list}>
              {found.map((command, i) => (
                <li
                  key={`${command.group} ${command.name}`}
                  id={`command-${i}`}
                  role="option"
                  aria-selected={i === selected}
                  title={command.help}
                  onClick={() => choose(command)}
                >
                  {command.name} <small>{command.group}</small>
                </li>
              ))}
            </ul>
            {found.length === 0 && (
              <p class="note" role="status">
                No view or action has this name: delete some letters.
              </p>
            )}
          </>
        );
      }}
    </Dialog>
  );
}
