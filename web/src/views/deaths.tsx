// The kind deaths, freeing stacks below allocating stacks: how much is known, and how to record it otherwise.
import { useState } from "preact/hooks";
import { type State, api } from "../api.ts";
import { percent } from "../model/format.ts";
import type { Freed } from "../model/deaths.ts";

/** How to switch the recording on: by a command, or with a button if the page may set options. */
function SwitchOn({ state }: { state: State }) {
  const [said, setSaid] = useState("");
  const set = async () => {
    try {
      await api.set("free_stacks", "all");
      setSaid("It is recorded from now on.");
    } catch (failure) {
      setSaid(failure instanceof Error ? failure.message : String(failure));
    }
  };
  return (
    <>
      <code>seemalloc set {state.pid || "PID"} free_stacks=all</code> records it of what is freed from then on.{" "}
      {state.allow_set && state.live && <button onClick={() => void set()}>record it from now on</button>}
      <span role="status">{said && ` ${said}`}</span>
    </>
  );
}

/** The unknown share in words; nothing if all is known. */
export function Unknown({ freed, state }: { freed: Freed; state: State }) {
  if (freed.all === 0 || freed.known >= freed.all) return null;
  const share = freed.known / freed.all;
  const what = freed.known === 0 ? "Who frees blocks is not recorded" : `It is not known who freed ${share > 0.99 ? "some" : percent(freed.all - freed.known, freed.all)} of it`;
  return (
    <p class="note">
      {what}.{" "}
      {state.report ? "" : share < 0.9 ? <SwitchOn state={state} /> : "There was no room for more pairs of stacks, or it was not recorded at first."}
    </p>
  );
}
