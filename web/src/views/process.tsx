// Size classes, calls into the kernel, what doctor says, and the options: one table each.
import { useState } from "preact/hooks";
import { type Setting, type State, api } from "../api.ts";
import { bytes, count, duration } from "../model/format.ts";
import { useAnswer } from "../state.ts";
import { Trace } from "./trace.tsx";
import { Word } from "./word.tsx";

function Problem({ text }: { text: string }) {
  return text ? <p class="problem" role="alert">{text}</p> : null;
}

export function Sizes() {
  const { value, problem } = useAnswer(api.stats, 2000, []);
  const classes = value?.size_classes ?? [];
  const most = Math.max(1, ...classes.map((one) => one.size * (one.live + one.cached + one.free)));
  return (
    <section>
      <Problem text={problem} />
      <table class="figures">
        <thead><tr><th scope="col"><Word name="size class" /></th><th scope="col"><Word name="span">spans</Word></th><th scope="col">live blocks</th><th scope="col">cached</th><th scope="col">free</th><th scope="col">bytes live</th><th scope="col">free, of all</th><th scope="col"><Word name="refills" /></th><th scope="col"><span class="swatch live" /> live <span class="swatch cached" /> cached <span class="swatch free" /> free, in bytes</th></tr></thead>
        <tbody>
          {classes.map((one) => {
            const whole = one.live + one.cached + one.free;
            const part = (blocks: number) => `${(100 * one.size * blocks) / most}%`;
            return (
              <tr key={one.size}>
                <td>{bytes(one.size)}</td><td>{count(one.spans)}</td><td>{count(one.live)}</td><td>{count(one.cached)}</td><td>{count(one.free)}</td>
                <td>{bytes(one.size * one.live)}</td><td>{whole ? `${Math.round((100 * (one.free + one.cached)) / whole)} %` : ""}</td><td>{count(one.refills)}</td>
                <td class="meter"><span class="live" style={{ width: part(one.live) }} /><span class="cached" style={{ width: part(one.cached) }} /><span class="free" style={{ width: part(one.free) }} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

export function Kernel({ live }: { live: boolean }) {
  const { value, problem } = useAnswer(api.stats, 2000, []);
  const calls = [...(value?.system.calls ?? [])].sort((a, b) => b.ns - a.ns);
  return (
    <section>
      <Problem text={problem} />
      {value && (
        <p>Purging is <strong>{value.purge.mode}</strong>, after {count(value.purge.delay_ms)} ms; {bytes(value.purge.given_back)} have gone back,{" "}
          {bytes(value.system.refault_bytes)} of it were wanted again soon (<Word name="refault">refaults</Word>). Page faults: {count(value.system.minor_faults)} minor, {count(value.system.major_faults)} from disk.</p>
      )}
      <table class="figures">
        <thead><tr><th scope="col" class="name">call</th><th scope="col" class="name"><Word name="reason" /></th><th scope="col">calls</th><th scope="col">bytes</th><th scope="col">refused</th><th scope="col">time</th><th scope="col">per call</th></tr></thead>
        <tbody>
          {calls.map((one) => (
            <tr key={one.call + one.reason}>
              <td class="name">{one.call}</td><td class="name">{one.reason}</td><td>{count(one.calls)}</td><td>{bytes(one.bytes)}</td><td>{count(one.refused)}</td><td>{duration(one.ns)}</td><td>{duration(one.ns / Math.max(1, one.calls))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="note">Since the start of the process; calls with the reason "report" were made for this page. <code>seemalloc trace PID</code> shows each call and what caused it{live ? ", as this does:" : "."}</p>
      {live && <Trace />}
    </section>
  );
}

// Where a finding is seen.
const SEEN: Record<string, string> = {
  "purge-storm": "kernel", fragmentation: "map", "huge-pages": "kernel", hoarding: "sizes", "realloc-copies": "functions", "over-alignment": "functions",
};

export function Doctor({ state, go }: { state: State; go: (view: string) => void }) {
  const [round, setRound] = useState(0);
  const { value, problem } = useAnswer(api.doctor, 0, [round]);
  return (
    <section>
      {!state.report && <div class="bar"><button onClick={() => setRound(round + 1)}>look again</button> it looks twice, two seconds apart</div>}
      <Problem text={problem} />
      {!value && !problem && <p>Looking …</p>}
      {value && !value.findings?.length && <p class="good">Nothing is wrong, as far as can be seen in {value.seconds.toFixed(1)} s.</p>}
      {value && <p class="note">Doctor looks at how memory is used, not for leaks: who grows is under <button class="link" onClick={() => go("growth")}>Growth</button>.</p>}
      {value?.findings?.map((one) => (
        <article key={one.id} class={`finding ${one.severity}`}>
          <h2>{one.title}: {one.figure}</h2>
          <p>{one.why}</p>
          <ul>{one.change.map((text) => <li key={text}>{text}</li>)}</ul>
          {one.sites && one.sites.length > 0 && (
            <>
              <p>{one.places}:</p>
              <ol>{one.sites.map((site) => <li key={site.place}>{site.place} <small>{bytes(site.bytes)}, {Math.round(100 * site.share)} %</small></li>)}</ol>
            </>
          )}
          {SEEN[one.id] && <button onClick={() => go(SEEN[one.id]!)}>show it</button>}
        </article>
      ))}
      {value && (
        <details>
          <summary>What was looked at</summary>
          <table class="figures"><tbody>{value.looked_at.map((one) => <tr key={one.id}><td class="name">{one.what}</td><td class="name">{one.missing || one.seen}</td></tr>)}</tbody></table>
        </details>
      )}
    </section>
  );
}

function Row({ one, may, done }: { one: Setting; may: boolean; done: (problem: string) => void }) {
  const [text, setText] = useState<string | null>(null);
  const save = async () => {
    try {
      await api.set(one.name, text ?? one.value);
      setText(null);
      done("");
    } catch (failure) {
      done(String(failure instanceof Error ? failure.message : failure));
    }
  };
  return (
    <tr>
      <td class="name"><code>{one.name}</code></td>
      <td class="name">
        {may && one.any ? (
          <form onSubmit={(event) => { event.preventDefault(); void save(); }}>
            <input aria-label={one.name} value={text ?? one.value} placeholder={one.expected} onInput={(event) => setText(event.currentTarget.value)} />
            {text !== null && text !== one.value && <button>set</button>}
          </form>
        ) : one.value || "(empty)"}
        {one.value !== one.default && <small> default {one.default || "(empty)"}</small>}
      </td>
      <td class="name"><small>{one.help}</small></td>
    </tr>
  );
}

export function Settings({ state }: { state: State }) {
  const [round, setRound] = useState(0);
  const [said, setSaid] = useState("");
  const { value, problem } = useAnswer(api.settings, 0, [round]);
  const done = (text: string) => {
    setSaid(text);
    if (!text) setRound(round + 1);
  };
  const purge = async () => {
    try {
      setSaid(`${bytes(Number(await api.purge()))} given back.`);
    } catch (failure) {
      setSaid(String(failure instanceof Error ? failure.message : failure));
    }
  };
  return (
    <section>
      {state.report ? <p class="note">As they were when this report was made.</p> : (
        <p><a href="api/report" download>Save a report of all this</a>: one file that opens without seemalloc and without a network.</p>
      )}
      {state.allow_set ? <div class="bar"><button onClick={purge}>give free memory back now</button></div>
        : !state.report && <p class="note">Read only: <code>seemalloc web --allow-set</code> lets this page change the process.</p>}
      <Problem text={problem} />
      <p aria-live="polite">{said}</p>
      <table class="figures settings stacked" style={{ "--columns": 2 }}><tbody>{value?.map((one) => <Row key={one.name} one={one} may={state.allow_set} done={done} />)}</tbody></table>
    </section>
  );
}
