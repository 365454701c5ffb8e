// Ponder requires this file. The benchmark sends no requests to this server.
import { Hono } from "hono";

export default new Hono();
