// The order of search results: how many words of the question stand in a page's title and address, then which room it
// is in, then how often and where else they stand. Sphinx alone counts a word in a table as much as a page about it.
"use strict";
const MEANING = /^(what (is|are|does)|meaning of|define)\b/i;  // a question that the glossary answers too
const ROOMS = [["how-to/", 4], ["learn/", 3], ["explain/", 3], ["papers/", 2], ["reference/", 1]];

function asked() {
  return (new URLSearchParams(window.location.search).get("q") || "").trim();
}

function questionStems() {
  const stemmer = new Stemmer();
  return splitQuery(asked().toLowerCase()).filter((word) => !stopwords.includes(word)).map((word) => stemmer.stemWord(word));
}

var Scorer = {
  score: (result) => {
    const [page, title, , , score] = result;
    const stemmer = new Stemmer();
    const words = splitQuery(`${title} ${page.split("/").pop().replace(/[-_]/g, " ")}`.toLowerCase());
    const about = new Set(words.map((word) => stemmer.stemWord(word)));
    const stems = questionStems();
    const named = stems.filter((stem) => about.has(stem)).length / Math.max(1, stems.length);
    const room = ROOMS.find(([folder]) => page.startsWith(folder));
    const meaning = page === "learn/glossary" && MEANING.test(asked()) ? 90 : 0;
    return meaning + 100 * named + 3 * (room ? room[1] : 3) - about.size / 4 + Math.min(score, 30) / 10;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
