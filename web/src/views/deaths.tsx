// The kind deaths, freeing stacks below allocating stacks: how much is known, and how to record it otherwise.
import { useState } from "preact/hooks";
import type { State } from "../answers.ts";
import { api } from "../api.ts";
import type { FreeingCoverage } from "../model/deaths.ts";
import { percent } from "../model/format.ts";

/** How to switch the recording on: by a command, or with a button if the page may set options. */
function EnableRecording({ state }: { state: State }) {
  const [message, setMessage] = useState("");
  const set = async () => {
    try {
      await api.set("free_stacks", "all");
      setMessage("Recording is on.");
    } catch (failure) {
      setMessage(failure instanceof Error ? failure.message : String(failure));
    }
  };
  return (
    <>
      <code>seemalloc set {state.pid || "PID"} free_stacks=all</code> records it for all further frees.{" "}
      {state.allow_set && state.live && <button onClick={() => void set()}>record from now on</button>}
      <span role="status">{message && ` ${message}`}</span>
    </>
  );
}

/** The unknown share in words; nothing if all is known. */
export function UnknownFreeingStacks({ freed, state }: { freed: FreeingCoverage; state: State }) {
  if (freed.all === 0 || freed.known >= freed.all) return null;
  const share = freed.known / freed.all;
  const what =
    freed.known === 0
      ? "The freeing stacks are not recorded"
      : `The freeing stack is unknown for ${share > 0.99 ? "some" : percent(freed.all - freed.known, freed.all)} of it`;
  return (
    <p class="note">
      {what}.{" "}
      {state.report ? (
        ""
      ) : share < 0.9 ? (
        <EnableRecording state={state} />
      ) : (
        "There was no space for more pairs of stacks, or the recording was off at first."
      )}
    </p>
  );
}
