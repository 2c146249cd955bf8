/**
 * GPU training costs in Google Sheets: =GPU_COST(...), =GPU_HOURS(...), =GPU_FITS(...), =GPU_VALUE(...).
 *
 * Extensions > Apps Script, paste this file, then Project Settings > Script Properties:
 *   ESTIMATOR_URL      address of your server, for example https://planner.example.org   (needed)
 *   ESTIMATOR_API_KEY  its key                                                           (where it asks for one)
 *
 * Arguments may be cells or whole ranges; a range is answered with one batch of requests, each question once. Answers
 * are kept for ten minutes. Google's servers make the requests, so yours must be reachable from the internet.
 */

var KEEP_SECONDS = 600;
var BATCH = 50;

/**
 * Dollars (median) of the cheapest plan.
 * @param {string} model Model, for example "llama3-8b".
 * @param {string} method pretrain, full, lora or qlora.
 * @param {string} data Size of the data set: "50M" (tokens), "1281167 images", "50k samples".
 * @param {string} gpu GPU and count, for example "H100:8"; empty for the cheapest that works.
 * @param {string} options More keys: "epochs=3; region=us-*; market=spot".
 * @return Dollars.
 * @customfunction
 */
function GPU_COST(model, method, data, gpu, options) {
  return ask_('cost_usd', [model, method, data, gpu, options]);
}

/**
 * Hours on the clock (median) of the cheapest plan; arguments as GPU_COST.
 * @customfunction
 */
function GPU_HOURS(model, method, data, gpu, options) {
  return ask_('hours', [model, method, data, gpu, options]);
}

/**
 * Does it fit in memory: yes, tight, no or unknown; arguments as GPU_COST.
 * @customfunction
 */
function GPU_FITS(model, method, data, gpu, options) {
  return ask_('fits', [model, method, data, gpu, options]);
}

/**
 * Any other figure by its name, for example "usd_per_hour" or "instance_type"; further arguments as GPU_COST.
 * @customfunction
 */
function GPU_VALUE(value, model, method, data, gpu, options) {
  return ask_(value, [model, method, data, gpu, options]);
}

/** The answers in the shape of the first range among the arguments; one value where there is none. */
function ask_(value, parts) {
  var shape = parts.filter(Array.isArray)[0];
  if (!shape) {
    var answer = answers_([query_(value, parts)])[0];
    if (typeof answer === 'string' && answer.indexOf('#ERROR:') === 0) throw new Error(answer.slice(8));
    return answer;
  }
  var queries = [];
  shape.forEach(function (row, r) {
    row.forEach(function (_, c) {
      queries.push(query_(value, parts.map(function (part) { return at_(part, r, c); })));
    });
  });
  var found = answers_(queries);
  return shape.map(function (row) { return row.map(function () { return found.shift(); }); });
}

/** The value of an argument for one cell: a range of one row or column serves all rows or columns. */
function at_(part, r, c) {
  if (!Array.isArray(part)) return part;
  var row = part[part.length === 1 ? 0 : r] || [];
  return row[row.length === 1 ? 0 : c];
}

/** The query of one question; empty for a row without a model. */
function query_(value, parts) {
  var model = text_(parts[0]), method = text_(parts[1]), data = text_(parts[2]), gpu = text_(parts[3]);
  if (!model) return '';
  var keys = { model: model, method: method, gpu: gpu, value: value };
  var amount = /^(.*?)\s*(tokens|samples|images)?$/i.exec(data);
  if (amount[1]) keys[(amount[2] || 'tokens').toLowerCase()] = amount[1].replace(/,/g, '');
  text_(parts[4]).split(/[;\n]/).forEach(function (pair) {
    var place = pair.indexOf('=');
    if (place > 0) keys[pair.slice(0, place).trim()] = pair.slice(place + 1).trim();
  });
  return Object.keys(keys).sort().filter(function (key) { return keys[key] !== ''; }).map(function (key) {
    return encodeURIComponent(key) + '=' + encodeURIComponent(keys[key]);
  }).join('&');
}

function text_(cell) {
  return cell === undefined || cell === null ? '' : String(cell).trim();
}

/** Answers in the order of the queries: from the cache, the rest in batches, each question once. */
function answers_(queries) {
  var cache = CacheService.getScriptCache();
  var names = {};
  queries.forEach(function (query) { if (query) names[query] = name_(query); });
  var known = {};
  var kept = cache.getAll(Object.keys(names).map(function (query) { return names[query]; }));
  Object.keys(names).forEach(function (query) {
    if (kept[names[query]] !== undefined && kept[names[query]] !== null) known[query] = kept[names[query]];
  });
  var asked = Object.keys(names).filter(function (query) { return known[query] === undefined; });
  for (var start = 0; start < asked.length; start += BATCH) {
    var part = asked.slice(start, start + BATCH);
    var fresh = {};
    UrlFetchApp.fetchAll(part.map(request_)).forEach(function (answer, n) {
      var said = answer.getContentText().trim();
      if (answer.getResponseCode() === 200) {
        known[part[n]] = said;
        if (said.indexOf('#ERROR:') !== 0) fresh[names[part[n]]] = said;
      } else {
        known[part[n]] = '#ERROR: the server answered ' + answer.getResponseCode();
      }
    });
    cache.putAll(fresh, KEEP_SECONDS);
  }
  return queries.map(function (query) { return query ? number_(known[query]) : ''; });
}

function number_(said) {
  return /^-?\d+(\.\d+)?$/.test(said) ? Number(said) : said;
}

/** A cache key: Google takes 250 characters. */
function name_(query) {
  var bytes = Utilities.computeDigest(Utilities.DigestAlgorithm.MD5, query);
  return 'gpu:' + bytes.map(function (byte) { return ((byte + 256) % 256).toString(16); }).join('.');
}

function request_(query) {
  var settings = PropertiesService.getScriptProperties();
  var server = settings.getProperty('ESTIMATOR_URL'), key = settings.getProperty('ESTIMATOR_API_KEY');
  if (!server) throw new Error('set the script property ESTIMATOR_URL to the address of your server');
  return {
    url: server.replace(/\/+$/, '') + '/v1/cell?' + query,
    headers: key ? { 'X-API-Key': key } : {},
    muteHttpExceptions: true
  };
}
