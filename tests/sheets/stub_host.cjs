// Runs a custom-functions file under a stub of its host, against a real server.
// usage: node stub_host.cjs google|office SERVER FILE CALLS.json   prints {answers, requests}
const { execFileSync } = require('node:child_process');
const { readFileSync } = require('node:fs');
const { createHash } = require('node:crypto');
const vm = require('node:vm');

const [, , host, server, file, calls] = process.argv;
const asked = JSON.parse(readFileSync(calls, 'utf8'));
const key = process.env.STUB_KEY || null;
let requests = 0;

function fetchedTogether(list) {
  const script = `Promise.all(JSON.parse(process.argv[1]).map(async (r) => {
    const a = await fetch(r.url, {headers: r.headers}); return [a.status, await a.text()]; }))
    .then((all) => console.log(JSON.stringify(all)))`;
  return JSON.parse(execFileSync(process.execPath, ['-e', script, JSON.stringify(list)], { encoding: 'utf8' }));
}

function google() {
  const kept = {};
  const properties = { ESTIMATOR_URL: server + '/', ESTIMATOR_API_KEY: key };
  const batches = [];
  const context = vm.createContext({
    CacheService: { getScriptCache: () => ({
      getAll: (names) => Object.fromEntries(names.filter((n) => n in kept).map((n) => [n, kept[n]])),
      putAll: (values) => { for (const name of Object.keys(values)) {
        if (name.length > 250) throw new Error('cache key too long');
        kept[name] = values[name];
      } },
    }) },
    PropertiesService: { getScriptProperties: () => ({ getProperty: (name) => properties[name] ?? null }) },
    Utilities: { DigestAlgorithm: { MD5: 'md5' },
      computeDigest: (kind, text) => [...createHash(kind).update(text).digest()].map((b) => (b > 127 ? b - 256 : b)) },
    UrlFetchApp: { fetchAll: (list) => {
      list.forEach((r) => { if ((r.headers['X-API-Key'] ?? null) !== key) throw new Error('no key'); });
      batches.push(list.length);
      requests += list.length;
      return fetchedTogether(list).map(([status, text]) => ({
        getResponseCode: () => status, getContentText: () => text }));
    } },
  });
  vm.runInContext(readFileSync(file, 'utf8'), context);
  const answers = asked.map(([name, ...parts]) => {
    context.parts = parts;
    try { return vm.runInContext(`JSON.stringify(${name}(...parts))`, context); } catch (error) {
      return JSON.stringify({ error: String(error.message) });
    }
  }).map((text) => JSON.parse(text));
  console.log(JSON.stringify({ answers, requests, batches }));
}

async function office() {
  const functions = {};
  let atOnce = 0, most = 0;
  const context = vm.createContext({
    CustomFunctions: {
      associate: (id, f) => { functions[id] = f; },
      ErrorCode: { invalidValue: '#VALUE!', notAvailable: '#N/A' },
      Error: class extends Error { constructor(code, message) { super(message); this.code = code; } },
    },
    OfficeRuntime: { storage: { getItem: async () => key } },
    fetch: async (url, options) => {
      if ((options.headers['X-API-Key'] ?? null) !== key) throw new Error('no key');
      requests += 1; atOnce += 1; most = Math.max(most, atOnce);
      try { return await fetch(url, options); } finally { atOnce -= 1; }
    },
    Promise, Map, Date, Number, String, Object, encodeURIComponent,
  });
  vm.runInContext(readFileSync(file, 'utf8'), context);
  const answers = await Promise.all(asked.map(async ([name, ...parts]) => {
    try { return await functions[name](...parts); } catch (error) { return { error: error.message, code: error.code }; }
  }));
  console.log(JSON.stringify({ answers, requests, most }));
}

(host === 'google' ? google : office)();
