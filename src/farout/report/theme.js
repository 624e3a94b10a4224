"use strict";
(() => {
  const root = document.documentElement;

  // Theme: the system's, until the button is pressed.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const remember = (theme) => { try { localStorage.setItem("farout-theme", theme); } catch { /* files may not store */ } };
  try { if (localStorage.getItem("farout-theme")) root.dataset.theme = localStorage.getItem("farout-theme"); } catch { /* as above */ }
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const button = document.getElementById("theme");
  const name = () => { button.textContent = isDark() ? "Light mode" : "Dark mode"; };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; remember(root.dataset.theme); name(); document.dispatchEvent(new Event("theme")); });
  dark.addEventListener("change", () => { name(); document.dispatchEvent(new Event("theme")); });
  name();
})();
