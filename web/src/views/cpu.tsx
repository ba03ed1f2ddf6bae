// CPU profiles: controls to start and stop them if the page may do so, otherwise the command that does.
import { useState } from "preact/hooks";
import type { CPU, State } from "../answers.ts";
import { api } from "../api.ts";

export const CPU_KIND = "cpu";

interface Props {
  state: State;
  cpu: CPU | null; // null: unknown
  changed: () => void;
}

/** The progress, and a button to stop early. */
function Running({ cpu, end }: { cpu: CPU; end: () => void }) {
  const elapsed = Math.floor(cpu.elapsed_s);
  return (
    <>
      <progress aria-label="CPU profile" max={cpu.for_s} value={cpu.elapsed_s} />
      <span>
        {cpu.elapsed_s < cpu.for_s
          ? `${elapsed} of ${cpu.for_s} s, ${cpu.hz} samples per second of each thread's CPU time`
          : "ending …"}
      </span>
      <button onClick={end}>stop now</button>
    </>
  );
}

interface CPUSettings {
  seconds: string; // as typed
  hz: string;
}

function StartForm({
  cpu,
  settings,
  setSettings,
  start,
}: {
  cpu: CPU;
  settings: CPUSettings;
  setSettings: (settings: CPUSettings) => void;
  start: (seconds: number, hz: number) => void;
}) {
  return (
    <form
      class="bar"
      onSubmit={(event) => {
        event.preventDefault();
        start(Number(settings.seconds), Number(settings.hz));
      }}
    >
      <label>
        seconds{" "}
        <input
          type="number"
          required
          min={1}
          max={cpu.most_s}
          step="any"
          value={settings.seconds}
          onInput={(event) => setSettings({ ...settings, seconds: event.currentTarget.value })}
        />
      </label>
      <label title="How often each thread is interrupted per second of its CPU time">
        samples per second{" "}
        <input
          type="number"
          required
          min={1}
          max={cpu.most_hz}
          value={settings.hz}
          onInput={(event) => setSettings({ ...settings, hz: event.currentTarget.value })}
        />
      </label>
      <button>profile CPU time</button>
    </form>
  );
}

export function CPUTime({ state, cpu, changed }: Props) {
  const [error, setError] = useState("");
  const [settings, setSettings] = useState<CPUSettings | null>(null);
  if (!state.live)
    return cpu?.problem ? (
      <p class="problem" role="alert">
        {cpu.problem}
      </p>
    ) : null;
  const pid = state.pid || "PID";
  if (!state.allow_set) {
    return (
      <p class="note">
        Read-only page. To profile CPU time from here, start the page with <code>seemalloc web --allow-set {pid}</code>
        {"; or run "}
        <code>seemalloc cpu {pid}</code>, and its profile is shown here.
      </p>
    );
  }
  if (!cpu) return null;
  const send = async (request: Promise<CPU>) => {
    try {
      await request;
      setError("");
      changed();
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure));
    }
  };
  const problem = error || cpu.problem;
  return (
    <section class="cpu" aria-label="Profile of CPU time">
      {cpu.running ? (
        <div class="bar">
          <Running cpu={cpu} end={() => void send(api.endCPU())} />
        </div>
      ) : (
        <StartForm
          cpu={cpu}
          settings={settings ?? { seconds: String(cpu.for_s), hz: String(cpu.hz) }}
          setSettings={setSettings}
          start={(seconds, hz) => void send(api.startCPU(seconds, hz))}
        />
      )}
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <div role="status">
        {!cpu.running &&
          cpu.said.map((line) => (
            <p key={line} class="note">
              {line}
            </p>
          ))}
      </div>
    </section>
  );
}

/** Shown if there are no samples. */
export function NoCPUSamples({ state, running }: { state: State; running: boolean }) {
  if (running)
    return (
      <p class="note">
        No samples so far: the profile is fetched every few seconds, and a waiting thread is not sampled.
      </p>
    );
  if (!state.live) return <p class="note">CPU time was not profiled while the process ran.</p>;
  return (
    <p class="note">
      CPU time has not been profiled yet
      {state.allow_set ? (
        "."
      ) : (
        <>
          : run <code>seemalloc cpu {state.pid || "PID"}</code>, and its profile is shown here.
        </>
      )}
    </p>
  );
}
