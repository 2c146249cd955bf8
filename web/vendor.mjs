// Copies the page's libraries, as published, into api/web/static/vendor, each with its licence.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "api", "web", "static", "vendor");
const files = [
  ["htmx.org", "dist/htmx.min.js", "htmx.min.js"],
  ["idiomorph", "dist/idiomorph-ext.min.js", "idiomorph-ext.min.js"],
  ["@github/combobox-nav", "dist/index.js", "combobox-nav.js"],
];

mkdirSync(target, { recursive: true });
const lines = ["Libraries of the page, unchanged from the npm registry; versions and hashes in web/package-lock.json.", ""];
for (const [name, from, to] of files) {
  const folder = join(here, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  copyFileSync(join(folder, from), join(target, to));
  copyFileSync(join(folder, "LICENSE"), join(target, `${to}.LICENSE`));
  lines.push(`${to}: ${name} ${version} (${license}), licence in ${to}.LICENSE`);
}
writeFileSync(join(target, "README"), lines.join("\n") + "\n");
