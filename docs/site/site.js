// SPDX-License-Identifier: Apache-2.0
// Search over SECTIONS: [page, anchor, title of the page, heading, text]. Every word must occur; headings count most.
"use strict";

const RESULTS_MAX = 20;
const EXCERPT = 160;
const up = document.body.dataset.up;
const field = document.getElementById("search");
const list = document.getElementById("results");
const article = document.querySelector("article");

function occurrences(text, word) {
  return text.split(word).length - 1;
}

// A heading counts by the share of it that was asked for; pages for users count more than formats and specification.
function score([page, , title, heading, text], words) {
  const headingWords = heading.toLowerCase().split(/\W+/).filter(Boolean);
  let sum = 0;
  for (const word of words) {
    const named = headingWords.filter((each) => each.startsWith(word)).length;
    const here = 40 * named / headingWords.length + 5 * occurrences(title.toLowerCase(), word) +
                 Math.min(occurrences(text.toLowerCase(), word), 4) + (named > 0 ? 10 : 0);
    if (here === 0) return 0;
    sum += here;
  }
  return sum * (page.includes("/") && !page.startsWith("guide/") ? 0.5 : 1);
}

function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  return SECTIONS.map((section) => [score(section, words), section])
    .filter(([points]) => points > 0)
    .sort((a, b) => b[0] - a[0])
    .slice(0, RESULTS_MAX)
    .map(([, section]) => section);
}

function excerpt(text, query) {
  const at = Math.max(0, text.toLowerCase().indexOf(query.toLowerCase().split(/\s+/)[0]) - EXCERPT / 3);
  return (at ? "… " : "") + text.slice(at, at + EXCERPT) + (at + EXCERPT < text.length ? " …" : "");
}

function show() {
  const query = field.value.trim();
  const found = find(query);
  list.replaceChildren(...found.map(([page, anchor, title, heading, text]) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    const small = document.createElement("small");
    link.href = `${up}/${page}#${anchor}`;
    link.textContent = title === heading ? title : `${title}: ${heading}`;
    small.textContent = excerpt(text, query);
    item.append(link, small);
    return item;
  }));
  if (query && found.length === 0) {
    const item = document.createElement("li");
    item.textContent = `Nothing found for "${query}".`;
    list.append(item);
  }
  list.hidden = query === "";
  article.hidden = query !== "";
}

field.addEventListener("input", show);
field.form.addEventListener("submit", (event) => {
  event.preventDefault();
  list.querySelector("a")?.click();
});
list.addEventListener("click", (event) => {
  if (event.target.closest("a")) { field.value = ""; show(); }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
  if (event.key === "Escape") { field.value = ""; show(); field.blur(); }
});
