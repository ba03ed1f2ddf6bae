// Figures as text.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value: number): string {
  let unit = 0;
  let size = Math.abs(value);
  for (; size >= 1023.5 && unit < UNITS.length - 1; unit++) size /= 1024;
  const digits = unit === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)} ${UNITS[unit]}`;
}

export function count(value: number): string {
  return Math.round(value).toLocaleString("en").replace("-", "−");
}

export function amount(value: number, unit: string, change = false): string {
  const text = unit === "bytes" ? bytes(value) : unit === "nanoseconds" ? duration(value) : count(value);
  return change && value > 0 ? "+" + text : text;
}

/** The standard error to append to a value: nothing for exact values, "?" if it is unknown. */
export function plusMinus(error: number | null, unit: string, after = ""): string {
  if (error === null) return " ± ?" + after;
  return error > 0 ? ` ± ${amount(error, unit)}${after}` : "";
}

/** The standard error of a difference. */
export function differenceError(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : Math.hypot(a, b);
}

export function duration(ns: number): string {
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${(ns / 1e3).toFixed(1)} µs`;
  if (size < 1e9) return `${(ns / 1e6).toFixed(1)} ms`;
  return `${(ns / 1e9).toFixed(2)} s`;
}

/** A long time, in its two largest units: "3 h 20 min". */
export function timeSpan(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)} days ${hours % 24} h`;
}

export function percent(part: number, whole: number): string {
  if (whole === 0) return "";
  if (part === 0) return "0 %";
  const value = (100 * part) / whole;
  return `${Math.abs(value) >= 9.95 ? value.toFixed(0) : value.toFixed(1)} %`.replace("-", "−");
}

/** The time of day, with the date unless it is today. */
export function clock(ms: number): string {
  const at = new Date(ms);
  return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString("en-GB") : moment(ms);
}

/** With its date. */
export function moment(ms: number): string {
  return new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

const DAY_S = 86400;

/**
 * Ticks of a time axis, in s since 1970: times of day as elsewhere on the page, and the date at the beginning of
 * each day.
 */
export function timeTicks(ticks: number[], step_s: number): string[] {
  return ticks.map((tick) => {
    const at = new Date(tick * 1000);
    if (step_s >= DAY_S || (at.getHours() === 0 && at.getMinutes() === 0 && at.getSeconds() === 0)) {
      return at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    }
    return at.toLocaleTimeString("en-GB", {
      hour: "2-digit",
      minute: "2-digit",
      ...(step_s < 60 ? { second: "2-digit" } : {}),
    });
  });
}
