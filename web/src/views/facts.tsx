// The figures of the summary: memory against its limit, growth, allocations, and which process it is.
import type { Point, ProcessInfo, State, Stats } from "../answers.ts";
import { api } from "../api.ts";
import { bytes, clock, count, percent, timeSpan } from "../model/format.ts";
import { sumRequests } from "../model/requests.ts";
import { ratePerSecond } from "../model/series.ts";
import { type Trend, trendOf } from "../model/trend.ts";
import { useRequest } from "../state.ts";

const RATE_POINTS = 10; // the last ones, of which a rate is the mean

function Fact({ name, value, children }: { name: string; value: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <strong>{value}</strong> <small>{children}</small>
      </dd>
    </div>
  );
}

function Limit({ pressure }: { pressure: Stats["pressure"] }) {
  if (!pressure) return null;
  if (!pressure.limit) return <>no memory limit is set</>;
  const { usage, limit } = pressure;
  return (
    <>
      <meter max={limit} value={usage} high={0.9 * limit} optimum={0} aria-label="memory used of the limit" /> the
      container uses {bytes(usage)} of {bytes(limit)}, {percent(usage, limit)}
    </>
  );
}

/** When the limit is reached at the present rate. */
function timeLeft(trend: Trend | null, pressure: { limit: number; usage: number }): [string, string] {
  if (!trend) return ["–", "the growth is not known yet"];
  if (!trend.isClear || trend.perMinute <= 0) return ["–", "resident memory does not grow"];
  const seconds = (60 * (pressure.limit - pressure.usage)) / trend.perMinute;
  return [timeSpan(Math.max(0, seconds)), "if resident memory keeps growing like this"];
}

function growthText(trend: Trend | null): [string, string] {
  if (!trend) return ["–", "known after half a minute"];
  const time = `in the last ${timeSpan(trend.seconds)}`;
  if (!trend.isClear) return ["steady", `no clear trend of resident memory ${time}`];
  return [`${trend.perMinute > 0 ? "+" : ""}${bytes(trend.perMinute)} a minute`, `of resident memory ${time}`];
}

function Identity({ state, info, isMissing }: { state: State; info: ProcessInfo | null; isMissing: boolean }) {
  const parts = [
    state.pid && `pid ${state.pid}`,
    info && `on ${info.host}`,
    info && `seemalloc ${info.version}`,
    info?.command,
  ].filter(Boolean);
  return (
    <p class="note identity">
      {parts.join(" · ")}
      {isMissing && " · host, version and command line are not in this folder: an older tool wrote it"}
    </p>
  );
}

/** points: at least one. */
export function Facts({ points, state }: { points: Point[]; state: State }) {
  const last = points[points.length - 1]!;
  const { value: stats } = useRequest(api.stats, state.live ? 5000 : 0, [state.live]);
  const { value: info, isPending, problem } = useRequest(api.process, 0, []);
  const { value: requests } = useRequest(api.requests, state.live ? 60_000 : 0, [state.live]);
  const pressure = stats?.pressure;
  const trend = trendOf(points, (point) => point.rss);
  const rates = ratePerSecond(points.slice(-RATE_POINTS), (point) => point.allocated ?? 0).filter(
    (one) => one !== null,
  );
  const rate = rates.reduce((sum, one) => sum + one, 0) / Math.max(1, rates.length);
  const all = sumRequests(requests ?? []);
  const [growth, growthTime] = growthText(trend);
  const [left, leftWhy] = pressure?.limit ? timeLeft(trend, pressure) : ["", ""];
  return (
    <>
      <dl class="facts">
        <Fact name="Resident" value={bytes(last.rss)}>
          <Limit pressure={pressure} />
        </Fact>
        <Fact name="Growth" value={growth}>
          {growthTime}
        </Fact>
        {left && (
          <Fact name="Limit reached in" value={left}>
            {leftWhy}
          </Fact>
        )}
        <Fact name="Allocates" value={`${bytes(rate)} a second`}>
          {all.count > 0 &&
            `about ${count((rate * all.count) / Math.max(1, all.bytes))} blocks a second, by the mean size of ${bytes(all.bytes / all.count)}`}
        </Fact>
        {info && (
          <Fact name="Up since" value={clock(info.started)}>
            {timeSpan((last.t - info.started) / 1000)}
          </Fact>
        )}
      </dl>
      <Identity state={state} info={info} isMissing={!info && !isPending && !problem} />
    </>
  );
}
