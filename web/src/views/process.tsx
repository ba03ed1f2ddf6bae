// Size classes, calls into the kernel, and the options: one table each.
import { useRef, useState } from "preact/hooks";
import type { Request, Setting, State } from "../answers.ts";
import { api } from "../api.ts";
import { SavePicture } from "../draw/picture.tsx";
import { snapshot } from "../draw/snapshot.ts";
import { bytes, count, duration } from "../model/format.ts";
import { groupLarge, internalFragmentation, sumRequests } from "../model/requests.ts";
import { acceptsAllSizes, acceptsSize } from "../model/rowfilters.ts";
import { type Change, useRequest, type ViewState } from "../state.ts";
import { Busy } from "./busy.tsx";
import { FilterBar } from "./filterbar.tsx";
import { Problem } from "./problem.tsx";
import { SizeRange } from "./rowfilters.tsx";
import { Term } from "./term.tsx";
import { Trace } from "./trace.tsx";

function Loading() {
  return (
    <p>
      <Busy>Asks the process</Busy>
    </p>
  );
}

export function Sizes({ shown, change }: { shown: ViewState; change: Change }) {
  const { value, problem } = useRequest(api.stats, 2000, []);
  const requestsAnswer = useRequest(api.requests, 10_000, []);
  const tables = useRef<HTMLDivElement>(null);
  const allClasses = value?.size_classes ?? [];
  const classes = allClasses.filter((one) => acceptsSize(shown, one.size));
  const most = Math.max(1, ...classes.map((one) => one.size * (one.live + one.cached + one.free)));
  const requests = (requestsAnswer.value ?? []).filter((one) => acceptsSize(shown, one.size));
  const bySize = new Map(requests.map((one) => [one.size, one]));
  const large = groupLarge(requests, Math.max(0, ...allClasses.map((one) => one.size)));
  const all = sumRequests(requests);
  const maxRequests = Math.max(1, ...requests.map((one) => one.count), ...large.map((one) => one.count));
  const internal = classes.reduce(
    (bytes, one) => bytes + internalFragmentation(bySize.get(one.size)) * one.size * one.live,
    0,
  );
  // Two cells: the number, and the same as a bar.
  const requestCells = (one: Request | undefined) => (
    <>
      <td>{one ? count(one.count) : ""}</td>
      <td class="meter short">
        <span class="requests" style={{ width: `${(100 * (one?.count ?? 0)) / maxRequests}%` }} />
      </td>
    </>
  );
  return (
    <section>
      <FilterBar
        shown={shown}
        change={change}
        line={value && <SavePicture name="seemalloc.sizes" draw={() => snapshot(tables.current!)} />}
      >
        <SizeRange shown={shown} change={change} />
      </FilterBar>
      <Problem text={problem} />
      {!value && !problem && <Loading />}
      {value && classes.length + large.length === 0 && (
        <p class="note">There are no classes of such sizes. Remove the filter of sizes to see all.</p>
      )}
      {requestsAnswer.value?.length === 0 && (
        <p class="note">No request has been sampled, or requests were not viewed while the process was observed.</p>
      )}
      {requestsAnswer.problem ? (
        <p class="note">Requests are not available: {requestsAnswer.problem}.</p>
      ) : (
        requestsAnswer.value &&
        all.count > 0 && (
          <p class="total">
            About <strong>{count(all.count)}</strong> requests since the start
            {!acceptsAllSizes(shown) && " that got blocks of such sizes"}, of {bytes(all.requested / all.count)} on
            average; <Term name="internal fragmentation" /> is {bytes(internal)} of the live bytes in the classes.
          </p>
        )
      )}
      <div ref={tables}>
        <table class="figures sizes" aria-label="Size classes">
          <thead>
            <tr>
              <th scope="col">
                <Term name="size class" />
              </th>
              <th scope="col">
                <Term name="span">spans</Term>
              </th>
              <th scope="col">live blocks</th>
              <th scope="col">
                <Term name="cached" />
              </th>
              <th scope="col">
                <Term name="free blocks">free</Term>
              </th>
              <th scope="col">bytes live</th>
              <th scope="col">
                <Term name="internal fragmentation">
                  internal
                  <br />
                  fragmentation
                </Term>
              </th>
              <th scope="col">not live</th>
              <th scope="col">
                <span class="swatch live" /> live <span class="swatch cached" /> cached <span class="swatch free" />{" "}
                free
              </th>
              <th scope="col">
                <Term name="requests" />
              </th>
              <th scope="col" class="name">
                histogram
              </th>
              <th scope="col">
                <Term name="refills" />
              </th>
            </tr>
          </thead>
          <tbody>
            {classes.map((one) => {
              const whole = one.live + one.cached + one.free;
              const part = (blocks: number) => `${(100 * one.size * blocks) / most}%`;
              const request = bySize.get(one.size);
              const share = internalFragmentation(request);
              return (
                <tr key={one.size}>
                  <td>{bytes(one.size)}</td>
                  <td>{count(one.spans)}</td>
                  <td>{count(one.live)}</td>
                  <td>{count(one.cached)}</td>
                  <td>{count(one.free)}</td>
                  <td>{bytes(one.size * one.live)}</td>
                  <td>
                    {request &&
                      (one.live > 0
                        ? `${bytes(share * one.size * one.live)}, ${Math.round(100 * share)} %`
                        : `${Math.round(100 * share)} %`)}
                  </td>
                  <td>{whole ? `${Math.round((100 * (one.free + one.cached)) / whole)} %` : ""}</td>
                  <td class="meter">
                    <span class="live" style={{ width: part(one.live) }} />
                    <span class="cached" style={{ width: part(one.cached) }} />
                    <span class="free" style={{ width: part(one.free) }} />
                  </td>
                  {requestCells(request)}
                  <td>{count(one.refills)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
        {large.length > 0 && (
          <table class="figures" aria-label="Requests of large blocks">
            <caption>Larger than all classes: whole pages</caption>
            <thead>
              <tr>
                <th scope="col">up to</th>
                <th scope="col">requested</th>
                <th scope="col">
                  <Term name="internal fragmentation" />
                </th>
                <th scope="col">
                  <Term name="requests" />
                </th>
                <th scope="col" class="name">
                  as a histogram
                </th>
              </tr>
            </thead>
            <tbody>
              {large.map((one) => (
                <tr key={one.size}>
                  <td>{bytes(one.size)}</td>
                  <td>{bytes(one.requested)}</td>
                  <td>{Math.round(100 * internalFragmentation(one))} %</td>
                  {requestCells(one)}
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}

export function Kernel({ live, shown, change }: { live: boolean; shown: ViewState; change: Change }) {
  const { value, problem } = useRequest(api.stats, 2000, []);
  const calls = [...(value?.system.calls ?? [])].sort((a, b) => b.ns - a.ns);
  return (
    <section>
      <Problem text={problem} />
      {!value && !problem && <Loading />}
      {value && calls.length === 0 && <p class="note">The allocator has made no call that this library counts.</p>}
      {value && (
        <p>
          Purging is <strong>{value.purge.mode}</strong>, after {count(value.purge.delay_ms)} ms;{" "}
          {bytes(value.purge.purged_bytes)} have been returned to the OS, {bytes(value.system.refault_bytes)} of it were
          reused soon (<Term name="refault">refaults</Term>). Page faults: {count(value.system.minor_faults)} minor,{" "}
          {count(value.system.major_faults)} from disk.
        </p>
      )}
      <table class="figures stacked calls" style={{ "--columns": 5 }}>
        <thead>
          <tr>
            <th scope="col" class="name">
              call
            </th>
            <th scope="col" class="name">
              <Term name="reason" />
            </th>
            <th scope="col">calls</th>
            <th scope="col">bytes</th>
            <th scope="col">refused</th>
            <th scope="col">time</th>
            <th scope="col">per call</th>
          </tr>
        </thead>
        <tbody>
          {calls.map((one) => (
            <tr key={one.call + one.reason}>
              <td class="name">{one.call}</td>
              <td class="name">{one.reason}</td>
              <td>{count(one.calls)}</td>
              <td>{bytes(one.bytes)}</td>
              <td>{count(one.refused)}</td>
              <td>{duration(one.ns)}</td>
              <td>{duration(one.ns / Math.max(1, one.calls))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="note">
        Since the start of the process; calls with the reason "report" were made for this page.{" "}
        <code>seemalloc trace PID</code> shows each call and its cause{live ? ", as this does:" : "."}
      </p>
      {live && <Trace shown={shown} change={change} />}
    </section>
  );
}

function SettingRow({ setting, canSet, done }: { setting: Setting; canSet: boolean; done: (problem: string) => void }) {
  const [text, setText] = useState<string | null>(null);
  const save = async () => {
    try {
      await api.set(setting.name, text ?? setting.value);
      setText(null);
      done("");
    } catch (failure) {
      done(String(failure instanceof Error ? failure.message : failure));
    }
  };
  return (
    <tr>
      <td class="name">
        <code>{setting.name}</code>
      </td>
      <td class="name">
        {canSet && setting.any ? (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              void save();
            }}
          >
            <input
              aria-label={setting.name}
              value={text ?? setting.value}
              placeholder={setting.expected}
              onInput={(event) => setText(event.currentTarget.value)}
            />
            {text !== null && text !== setting.value && <button>set</button>}
          </form>
        ) : (
          setting.value || "(empty)"
        )}
        {setting.value !== setting.default && <small> default {setting.default || "(empty)"}</small>}
      </td>
      <td class="name">
        <small>{setting.help}</small>
      </td>
    </tr>
  );
}

export function Settings({ state }: { state: State }) {
  const [round, setRound] = useState(0);
  const [message, setMessage] = useState("");
  const { value, problem } = useRequest(api.settings, 0, [round]);
  const done = (text: string) => {
    setMessage(text);
    if (!text) setRound(round + 1);
  };
  const purge = async () => {
    try {
      setMessage(`${bytes(Number(await api.purge()))} returned to the OS.`);
    } catch (failure) {
      setMessage(String(failure instanceof Error ? failure.message : failure));
    }
  };
  return (
    <section>
      {state.report ? (
        <p class="note">Values at the time of this report.</p>
      ) : (
        <p>
          <a href="api/report" download>
            Save a report of this page
          </a>
          : one file that opens without seemalloc and without a network.
        </p>
      )}
      {!state.live && !state.report && <p class="note">Values of the last query.</p>}
      {state.live && state.allow_set && (
        <div class="bar">
          <button onClick={purge}>return free memory now</button>
        </div>
      )}
      {state.live && !state.allow_set && (
        <p class="note">
          Read-only page: start <code>seemalloc web</code> with <code>--allow-set</code> to change the process from
          here.
        </p>
      )}
      <Problem text={problem} />
      <p aria-live="polite">{message}</p>
      {!value && !problem && <Loading />}
      <table class="figures settings stacked" style={{ "--columns": 2 }}>
        <tbody>
          {value?.map((one) => (
            <SettingRow key={one.name} setting={one} canSet={state.allow_set && state.live} done={done} />
          ))}
        </tbody>
      </table>
    </section>
  );
}
