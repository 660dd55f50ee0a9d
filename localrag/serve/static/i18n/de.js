import ask from "./de/ask.js";
import documents from "./de/documents.js";
import graph from "./de/graph.js";
import reports from "./de/reports.js";
import shell from "./de/shell.js";
import status from "./de/status.js";
import tables from "./de/tables.js";

export default { ...shell, ...ask, ...documents, ...graph, ...reports, ...status, ...tables };
