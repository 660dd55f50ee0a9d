// Runs before the first paint, so that a chosen theme does not flash.
try {
  const theme = JSON.parse(localStorage.getItem("localrag.theme"));
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // No storage: the system's theme.
}
