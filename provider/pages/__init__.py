# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pictures and pages for people: graphs as SVG, tables and charts in one look, without network.

`document` makes a page of sections, `fragment` what a notebook shows; both have one style sheet.
"""
