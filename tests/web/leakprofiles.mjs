// Profiles of the program that leaks, for tests that compare views with the tools' figures for the same files.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { eventually, startLeak, takeProfile, tool, top } from "./harness.mjs";

/** Starts the program, and takes two heap profiles of it between which both leaks have grown by at least 2 MiB. */
export async function takeLeakProfiles() {
  const leak = await startLeak();
  const leaky = ["leaky_parser", "leaky_session"];
  const heldBytes = (file, name) => top(file).functions.find((row) => row.name === name)?.cum ?? 0;
  const first = await eventually(() => {
    const file = takeProfile(leak.pid, "first.pb.gz");
    for (const name of leaky) assert.ok(heldBytes(file, name) > 1 << 20, `${name} holds ${heldBytes(file, name)}`);
    return file;
  });
  const second = await eventually(() => {
    const file = takeProfile(leak.pid, "second.pb.gz");
    for (const name of leaky) {
      const [before, after] = [heldBytes(first, name), heldBytes(file, name)];
      assert.ok(after - before > 2 << 20, `${name} has ${after} after ${before}`);
    }
    return file;
  });
  return { leak, first, second };
}

/** Takes a profile of lifetimes that has blocks of more than one age. */
export function takeLifetimes(leak) {
  return eventually(() => {
    const file = takeProfile(leak.pid, "lifetimes.pb.gz", "--kind", "lifetime");
    const rows = JSON.parse(execFileSync(tool, ["top", file, "--json", "-n", "0"])).lifetimes;
    const ages = new Set(rows.flatMap((row) => Object.keys(row.ages)));
    assert.ok(ages.size >= 2, [...ages].join());
    return file;
  });
}
