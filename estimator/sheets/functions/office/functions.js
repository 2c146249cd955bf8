/* Excel custom functions: =GPU.COST(...), =GPU.HOURS(...), =GPU.FITS(...), =GPU.VALUE(...). Served with its manifest. */
'use strict';

const SERVER = '{{base}}';
const KEEP_MS = 60000;
const AT_ONCE = 6;
const kept = new Map(); // query -> {until, answer: Promise}
const waiting = [];
let running = 0;

/** The query of one question; empty for a row without a model. */
function queryOf(value, model, method, data, gpu, options) {
  const text = (cell) => (cell === undefined || cell === null ? '' : String(cell).trim());
  if (!text(model)) return '';
  const keys = { model: text(model), method: text(method), gpu: text(gpu), value: text(value) };
  const amount = /^(.*?)\s*(tokens|samples|images)?$/i.exec(text(data));
  if (amount[1]) keys[(amount[2] || 'tokens').toLowerCase()] = amount[1].replace(/,/g, '');
  for (const pair of text(options).split(/[;\n]/)) {
    const place = pair.indexOf('=');
    if (place > 0) keys[pair.slice(0, place).trim()] = pair.slice(place + 1).trim();
  }
  return Object.keys(keys).sort().filter((key) => keys[key] !== '')
    .map((key) => `${encodeURIComponent(key)}=${encodeURIComponent(keys[key])}`).join('&');
}

/** The answer to a query: one request for all cells that ask the same within a minute, a few requests at a time. */
function ask(query) {
  if (!query) return Promise.resolve('');
  const known = kept.get(query);
  if (known && known.until > Date.now()) return known.answer;
  const answer = new Promise((resolve, reject) => waiting.push({ query, resolve, reject }));
  kept.set(query, { until: Date.now() + KEEP_MS, answer });
  answer.catch(() => kept.delete(query));
  next();
  return answer;
}

function next() {
  while (running < AT_ONCE && waiting.length) {
    const { query, resolve, reject } = waiting.shift();
    running += 1;
    fetched(query).then(resolve, reject).finally(() => { running -= 1; next(); });
  }
}

async function fetched(query) {
  const key = typeof OfficeRuntime === 'undefined' ? null : await OfficeRuntime.storage.getItem('estimator-api-key');
  let answer;
  try {
    answer = await fetch(`${SERVER}/v1/cell?${query}`, { headers: key ? { 'X-API-Key': key } : {} });
  } catch (_) {
    throw failure('notAvailable', `the server ${SERVER} cannot be reached`);
  }
  const said = (await answer.text()).trim();
  if (!answer.ok) throw failure('notAvailable', `the server answered ${answer.status}`);
  if (said.startsWith('#ERROR:')) throw failure('invalidValue', said.slice(8).trim());
  return /^-?\d+(\.\d+)?$/.test(said) ? Number(said) : said;
}

/** An error that Excel shows with its message at the cell. */
function failure(code, message) {
  return new CustomFunctions.Error(CustomFunctions.ErrorCode[code], message);
}

const cost = (...parts) => ask(queryOf('cost_usd', ...parts.slice(0, 5)));
const hours = (...parts) => ask(queryOf('hours', ...parts.slice(0, 5)));
const fits = (...parts) => ask(queryOf('fits', ...parts.slice(0, 5)));
const value = (name, ...parts) => ask(queryOf(name, ...parts.slice(0, 5)));

CustomFunctions.associate('COST', cost);
CustomFunctions.associate('HOURS', hours);
CustomFunctions.associate('FITS', fits);
CustomFunctions.associate('VALUE', value);
