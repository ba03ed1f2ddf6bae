// The program shapes.cc, running on seemalloc: started, told what to do, asked.
import { execFileSync, spawn } from "node:child_process";
import { connect } from "node:net";
import { join } from "node:path";
import { adopted, answers, folder, root, tool } from "./harness.mjs";

const out = process.env.SEEMALLOC_OUT ?? join(root, "out");
let built = "";

/** Starts it; tell() has it do a step and waits until it has. */
export async function startShapes(sample, ...flags) {
  if (!built) {
    built = join(folder, "shapes");
    execFileSync("c++", ["-O1", "-g", join(root, "tests/web/shapes.cc"), "-o", built, "-pthread"]);
  }
  const command = ["run", "--sample", sample, "--lib", join(out, "lib"), ...flags, "--", built];
  const child = adopted(spawn(tool, command, { stdio: ["pipe", "pipe", "inherit"] }));
  let text = "";
  let heard = () => {};
  child.stdout.on("data", (data) => {
    text += data;
    heard();
  });
  const line = async (want) => {
    while (!text.includes(want + "\n")) await new Promise((resolve) => (heard = resolve));
    text = "";
  };
  await line("ready");
  await answers(child.pid);
  return {
    pid: String(child.pid),
    tell: async (step) => {
      child.stdin.write(step);
      await line(step);
    },
  };
}

/** What the control socket answers to a line. */
export function ask(pid, command) {
  const path = join("/tmp", `seemalloc-${process.getuid()}`, `${pid}.sock`);
  return new Promise((resolve, reject) => {
    const socket = connect(path, () => socket.write(command + "\n"));
    const parts = [];
    socket.on("error", reject);
    socket.on("data", (data) => {
      parts.push(data);
      const all = Buffer.concat(parts);
      const end = all.indexOf("\n");
      if (end < 0) return;
      const head = all.subarray(0, end).toString();
      const length = Number(head.replace("ok ", ""));
      if (!head.startsWith("ok ")) reject(new Error(head));
      else if (all.length >= end + 1 + length) resolve(all.subarray(end + 1, end + 1 + length).toString());
      else return;
      socket.end();
    });
  });
}

/** An answer of lines of JSON. */
export async function askLines(pid, command) {
  return (await ask(pid, command)).trim().split("\n").map((line) => JSON.parse(line));
}
