// The theme of Debian's build knows dark pages only where they are asked for; here the browser's setting asks.
"use strict";
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function follow() {
    const chosen = localStorage.getItem("theme") || "auto";
    const theme = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
    if (document.body.dataset.theme !== theme) document.body.dataset.theme = theme;
  }
  dark.addEventListener("change", follow);
  new MutationObserver(follow).observe(document.body, { attributeFilter: ["data-theme"] });  // the theme's own button
  follow();
})();
