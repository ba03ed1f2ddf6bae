// The program shapes.cc, running on seemalloc: starting it, sending it commands, querying it.
import { execFileSync, spawn } from "node:child_process";
import { readlinkSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { adopted, answers, folder, root, tool } from "./harness.mjs";

const out = process.env.SEEMALLOC_OUT ?? join(root, "out");
let built = "";

/** Starts it; tell() sends it a command and waits until it is done. */
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

/** The control socket's answer to a line, after proving that this user may inspect the process (core/api/control.h). */
export async function ask(pid, command) {
  const path = join("/tmp", `seemalloc-${process.getuid()}`, `${pid}.sock`);
  const socket = connect(path);
  let heard = Buffer.alloc(0);
  let hear = () => {};
  socket.on("data", (data) => {
    heard = Buffer.concat([heard, data]);
    hear();
  });
  const answerTo = (line) =>
    new Promise((resolve, reject) => {
      socket.on("error", reject);
      socket.on("close", () => reject(new Error(`closed without an answer to ${line}`)));
      hear = () => {
        const end = heard.indexOf("\n");
        if (end < 0) return;
        const head = heard.subarray(0, end).toString();
        if (!head.startsWith("ok ")) return reject(new Error(head));
        const length = Number(head.replace("ok ", ""));
        if (heard.length < end + 1 + length) return;
        const answer = heard.subarray(end + 1, end + 1 + length).toString();
        heard = heard.subarray(end + 1 + length);
        resolve(answer);
      };
      socket.write(line + "\n");
    });
  try {
    const name = readlinkSync(`/proc/${pid}/fd/${await answerTo("prove")}`);
    await answerTo("prove " + name.replace("/memfd:seemalloc:", "").replace(" (deleted)", ""));
    return await answerTo(command);
  } finally {
    socket.end();
  }
}

/** An answer of lines of JSON. */
export async function askLines(pid, command) {
  return (await ask(pid, command)).trim().split("\n").map((line) => JSON.parse(line));
}
